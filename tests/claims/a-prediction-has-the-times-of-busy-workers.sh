# What train predicts has the stages' times of the step that it measured, and the mean time between its jobs: on one worker it
# is what that step took, with one such gap more, but for rounding of the means to ns.
needs_training
"$orrery" train "$source/graphs/digits.dot" -w 1 -m 4 --steps 8 --json >report.json
python3 - <<'END'
import json
report = json.load(open('report.json'))
busy, measured, predicted = report['worker'][0]['busy'], report['makespan'], report['predicted_makespan']
jobs = 2 * len(report['stages']) * report['microbatches'] + len(report['stages'])
gap = (measured - busy) / (jobs - 1)
assert gap > 0 and abs(predicted - measured - gap) <= 2e-9 * jobs, (busy, measured, predicted)
END
"$orrery" train "$source/graphs/digits.dot" --steps 8 | grep -F "from each stage's times in the measured one"
