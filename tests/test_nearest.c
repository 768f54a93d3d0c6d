/* Which word of a list is near one that is not in it. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/nearest.h"
#include "suite.h"

static const struct {
	const char *word, *words, *meant;
} cases[] = {
	{"forwrad", "backward forward weight", "forward"}, /* two that changed places */
	{"bakward", "backward forward weight", "backward"},
	{"weigght", "backward forward weight", "weight"},
	{"waight", "backward, forward, weight", "weight"},
	{"FORWARD", "backward|forward|weight", "forward"},
	{"zb_h1", "v-zb zb-h1 zb-h2", "zb-h1"},
	{"zb-h3", "v-zb zb-h1 zb-h2", "zb-h1"}, /* the first of those that are as near */
	{"num-workers", "microbatches workers costs", "workers"},
	{"workers-in-all", "microbatches workers costs", "workers"},
	{"cross_entropy", "mse softmax_cross_entropy", "softmax_cross_entropy"},
	{"simul", "show simulate schedules", "simulate"},
	{"shareworkers", "costs workers", ""}, /* a part is a whole word */
	{"fp16", "fp32 tf32 bf16", ""},
	{"sdg", "sgd adam adamw", "sgd"},
	{"k", "G R", ""},
	{"g", "G R", "G"},
	{"xy", "y", ""}, /* not all letters but one */
	{"", "forward", ""},
	{"forward", "", ""},
	{"completely-different", "forward backward", ""},
	{"a-word-that-is-longer-than-any-option-or-attribute-can-be",
	 "a-word-that-is-longer-than-any-option-or-attribute-can-bee", ""},
};

START_TEST(the_nearest_word_is_found_if_it_is_near)
{
	struct orr_nearest near = orr_nearest_to(cases[_i].word);

	orr_nearest_try_all(&near, cases[_i].words);
	ck_assert_msg(!strcmp(near.meant, cases[_i].meant), "%s: '%s' instead of '%s'",
		      cases[_i].word, near.meant, cases[_i].meant);
}
END_TEST

START_TEST(other_spellings_stand_for_a_word)
{
	struct orr_nearest near = orr_nearest_to("zbvv");

	ck_assert_str_eq(orr_nearest_hint(&near), "");
	orr_nearest_try(&near, "zbv", "v-zb");
	ck_assert_str_eq(orr_nearest_hint(&near), " (did you mean v-zb?)");
	orr_nearest_try(&near, "zbvw", NULL); /* no nearer */
	ck_assert_str_eq(orr_nearest_hint(&near), " (did you mean v-zb?)");
	orr_nearest_try(&near, "zbvv", NULL);
	ck_assert_str_eq(orr_nearest_hint(&near), " (did you mean zbvv?)");
}
END_TEST

static const struct suite_test tests[] = {
	EACH(the_nearest_word_is_found_if_it_is_near, N_OF(cases)),
	ONCE(other_spellings_stand_for_a_word),
};
SUITE("nearest")
