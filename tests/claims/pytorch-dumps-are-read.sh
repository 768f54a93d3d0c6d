# What PyTorch 2.15 dumps in either form is read, transfers and waits and sharding passed over, as the same schedule.
n=0
for comms in "$source"/tests/pytorch/*-compute_comms.csv; do
	only=${comms/few-sends-/}
	only=${only%-compute_comms.csv}-compute_only.csv
	stages=$(grep -o '[0-9]*F[0-9]' "$comms" | sed 's/F.*//' | sort -n | tail -n 1)
	for form in "$only" "$comms"; do
		$orrery simulate chain:$((stages + 1)) --costs 1,1,1 --schedule "$form" --csv "$(basename "$form")" >/dev/null
	done
	cmp "$(basename "$only")" "$(basename "$comms")"
	n=$((n + 1))
done
[ $n -ge 7 ]
# every word of its parser
printf '%s\n' 0UNSHARD,0F0,0SEND_F0,0WAIT_SEND_F0,1RECV_B0,0I0,0W0,0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD \
	'1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0' >all.csv
$orrery simulate chain:2 --schedule all.csv >/dev/null
