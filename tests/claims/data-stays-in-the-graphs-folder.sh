# A graph may name only data in its folder, not through a link or ..; other data, FIFOs and devices are
# refused at once, and a message quotes nothing of them.
needs_training
mkdir -p graph/data outside
for i in $(seq 40); do echo "$i,$((i % 7)),$((i % 2))"; done >good.csv
cp good.csv graph/data/good.csv
printf 'user,word\nroot,s3cret,1\n' >outside/secret
mkfifo graph/fifo
ln -s /dev/zero graph/zero
ln -s ../outside/secret graph/link
ln -s ../outside graph/folder
ln -s data graph/within

model() { # DATA
	cat >graph/model.dot <<-END
		digraph {
			data="$1"
			x [op=input columns="0:2"]; y [op=input columns="2"]
			a [op=linear features=4]; b [op=linear features=2]; loss [op=softmax_cross_entropy]
			x -> a -> b -> loss; y -> loss
		}
	END
}
train() { timeout 20 "$orrery" train "$@" --steps 1 --batch 8 -m 2 >out 2>err; }
refused() { # TEXT ARGUMENTS...
	text=$1
	shift
	code=0
	train "$@" || code=$?
	[ $code -eq 2 ] && grep -qF -- "$text" err && [ "$(wc -l <err)" -eq 1 ] && ! grep -q 's3cret\|user' err && return
	printf '%s: exit code %d: ' "$*" $code && cat err
	exit 1
}
for data in ../outside/secret "$PWD/outside/secret" /etc/passwd link folder/secret zero data/../../outside/secret; do
	model "$data"
	refused 'is not in the folder of the graph' graph/model.dot
	(cd graph && refused 'is not in the folder of the graph' model.dot)
	"$orrery" simulate graph/model.dot --stages 2 >/dev/null # which reads none
done
for data in fifo zero data; do # which show refuses as train does
	model $data
	refused "$data" graph/model.dot
	mv err of_train
	if "$orrery" show graph/model.dot >out 2>err; then exit 1; fi
	cmp err of_train
	[ ! -s out ]
done
model fifo
refused 'no file but a FIFO or a device' graph/model.dot
model none.csv
refused 'No such file' graph/model.dot
refused 'no file but a FIFO or a device' graph/model.dot --data graph/fifo
refused 'no file but a FIFO or a device' graph/model.dot --data /dev/zero
refused 'outside/secret:2: column 1: no number' graph/model.dot --data outside/secret
model ../good.csv
train graph/model.dot --data good.csv # the same file, named by whoever trains
for data in data/good.csv ./data/../data/good.csv within/good.csv "$PWD/graph/data/good.csv"; do
	model "$data"
	train graph/model.dot
	(cd graph && train model.dot)
done

# a plan names a graph, and whoever wrote the plan may not have what is in it
"$orrery" plan graph/model.dot -w 2 -m 2 --batch 8 -o plan.json >/dev/null
train plan.json
sed -i "s#\"graph\": \".*\"#\"graph\": \"outside/secret\"#" plan.json
refused 'plan.json: the graph that it names, outside/secret, cannot be read' plan.json
