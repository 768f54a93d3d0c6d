# A schedule answers to its name in any case, with or without hyphens, and to what the field and PyTorch call it.
is() { # NAME TEXT
	"$orrery" simulate chain:8 --workers 4 -m 8 --schedule "$2" --json >json
	grep -q "\"schedule\": \"$1\"" json || { echo "$2 is not $1"; exit 1; }
}

is 1f1b 1F1B
is v-zb zbv
is v-zb ZBVZeroBubble
is gpipe GPipe
is interleaved Interleaved1F1B
is lpp LoopedBFS
is dualpipe-v DualPipeV
is zb-1p zb1p
is zb-h1 ZB_H1
is hanayo Hanayo
"$orrery" simulate chain:8 --workers 4 -m 8 --schedule LoopedBFS --json >alias
"$orrery" simulate chain:8 --workers 4 -m 8 --schedule lpp:order=breadth --json >name
cmp alias name
"$orrery" schedules >list
grep -q 'also called: zbv' list
