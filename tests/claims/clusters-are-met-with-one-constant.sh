# Steps that others measured on clusters are met: replayed 1F1B with the lag of a transfer, A100s under other cuts and replicas
# with the speed of a GPU, their memory with what libraries take and by rank, ratios of schedules with the lag of a transfer and the time of attention, published models with the
# share of peaks of another.
measured=$source/../shared/data/clusters
[ -r "$measured/primus_1f1b.csv" ] || { echo "$measured/primus_1f1b.csv is not there" && exit 77; }
"$source/tools/table" cluster "$orrery" "$measured" | tee cluster.md
# columns: what, rows, mean, size, median, worst
awk -F ' *[|] *' '
	$2 == "free links" { met += $5 + 0 > 0.9 && $5 + 0 < 1.2 }
	$2 == "with the lag, the others" { met += $7 + 0 < 0.1 }
	$2 == "A100, rows that were not fitted to" { met += $3 == 9 && $5 + 0 < 1.5 && $6 + 0 < 0.7 }
	$2 == "A100, memory, rows that were not fitted to" { met += $3 == 13 && $5 + 0 < 5 && $6 + 0 < 4.5 }
	$3 == "more than 80" { met += $4 > 80 }
	/^Memory by rank/ { met += NF == 1 && $0 !~ / [-+]([4-9]|[0-9][0-9])[.]/ }
	$3 ~ /^interleaved$|^zb-2p$|^v-zb$|^v-min$/ { met += $6 + 0 > -3 && $6 + 0 < 3 }
	$2 == "ratios of schedules, rows that were not fitted to" { met += $3 == 4 && $6 + 0 < 3 && $7 + 0 < 5 }
	$2 == "published, rows that were not fitted to" { met += $3 == 19 && $6 + 0 < 8 }
	END { exit met != 13 }' cluster.md
