# What diverged goes on with --resume and a lower --lr, from the checkpoint that the message names; other settings stay compared.
needs_training
train() { "$orrery" train "$source/graphs/digits.dot" -w 2 --optimizer momentum --steps 20 --checkpoint ck --keep 0 --json "$@"; }

code=0
train --momentum 0 --lr 30 --every 1 >out 2>err || code=$?
[ $code -eq 1 ]
step=$(sed -nE 's/^orrery: training diverged in step ([0-9]+): .*/\1/p' err)
grep -q "; the last checkpoint is of step $((step - 1)), which leads here with any --lr: remove it, " err

# refuse TEXT OPTION...: exit code 2, and the line has the text
refuse() {
	text=$1 code=0
	shift
	train --resume "$@" >out 2>err || code=$?
	[ $code -eq 2 ]
	grep -qF "$text" err
}
refuse 'optimizer learning_rate is 30 there and 0.1 here: ' --momentum 0
refuse ', or give --lr: then the learning rate may go another way' --momentum 0 --decay cosine
refuse 'optimizer momentum is 0 there and 0.9 here: ' --lr 0.1
refuse 'optimizer weight_decay is 0 there and 0.1 here: ' --lr 0.1 --momentum 0 --weight-decay 0.1
refuse 'seed is 1 there and 2 here: ' --lr 0.1 --momentum 0 --seed 2

rm -r ck/step-0000000[2-9] # to where the parameters are good
train --momentum 0 --lr 0.01 --resume >json 2>err
grep -qx 'orrery: --lr 0.01 from step 2 on; the checkpoint is of --lr 30' err
python3 -c 'import json; assert 0 < json.load(open("json"))["loss"] < 100'
grep -q '"learning_rate": *0\.01' ck/step-00000020/manifest.json # what is kept is of the new one
train --momentum 0 --lr 0.01 --resume >json 2>err
if grep -q -- '--lr' err; then exit 1; fi
train --momentum 0 --decay cosine --steps 0 --resume >json 2>err # evaluated, whatever its rate was
