# One gradient of 8 GB takes a link of 1 GB/s for 8 s, whatever number of stages it is cut into.
for k in 1 2 4 8; do
	"$orrery" simulate chain:$k -w 2 -m 2 --schedule ddp --parameters $((8 / k))GB --bandwidth 1GB/s \
		--costs $((80 / k))ms,$((160 / k))ms --json >$k.json
	python3 -c "
import json
makespan = json.load(open('$k.json'))['makespan']
assert 8 <= makespan <= 8.5, makespan"
done
