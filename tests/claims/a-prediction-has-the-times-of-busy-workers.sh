# What train predicts has the stages' times of the step that it measured: on one worker it is what that was busy for, but for
# rounding of the means to ns.
needs_training
"$orrery" train "$source/graphs/digits.dot" -w 1 -m 4 --steps 8 --json >report.json
python3 - <<'END'
import json
report = json.load(open('report.json'))
busy, predicted = report['worker'][0]['busy'], report['predicted_makespan']
jobs = 2 * len(report['stages']) * report['microbatches'] + len(report['stages'])
assert 0 <= busy - predicted <= jobs * 1e-9 + 1e-12, (busy, predicted)
END
"$orrery" train "$source/graphs/digits.dot" --steps 8 | grep -F "from each stage's times in the measured one"
