#ifndef ORR_PIPELINE_CLUSTER_H
#define ORR_PIPELINE_CLUSTER_H
/* The order of a cluster's pairs, for qsort() and bsearch(). */
int orr_cluster_compare(const void *a, const void *b);
#endif
