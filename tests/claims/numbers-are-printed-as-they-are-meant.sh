# Numbers in JSON are as they are meant, 242 and not 242.00000000000003, 1.1 and not 1.1000000000000001; and plan says what its
# communication counts, and how long the busiest link of a stage is busy.
{
	"$orrery" plan towers:3,3/2 --costs 121,121 -w 8 -m 1 --json -o plan.json
	cat plan.json
	"$orrery" plan chain:4 --costs 1.21ms,2.42ms -w 4 -m 100 --json
	"$orrery" simulate chain:4 --costs 1.1,2.2 -m 121 --json
	"$orrery" compare chain:4 --costs 1.1,2.2 -m 12 --json
	"$orrery" show "$source/graphs/studies/clip.dot" --json
} >all.json
if grep -nE '\.[0-9]*(00000000[1-9]|99999999)' all.json; then exit 1; fi

"$orrery" plan chain:2 --costs 1s,2s --activation 34MB --workers 2 --link 1GB/s --straight --json -o links.json >links.txt
python3 - <<'END'
import json
for stage in json.load(open("links.json"))["stages"]:
    # 34 MB forward and 34 MB back beside that, hidden behind computing
    assert stage["link_seconds"] == 0.034 and stage["communication_seconds"] == 0, stage
END
"$orrery" plan chain:2 --costs 1s,2s --activation 34MB --workers 2 --link 1GB/s --straight >links.txt
grep -q '^communication: ' links.txt
grep -qE '^ +0 .* 0 ns +34 ms ' links.txt
