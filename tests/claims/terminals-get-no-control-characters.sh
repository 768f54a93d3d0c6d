# Whatever is named, no control character of it reaches the terminal, in messages or in reports; messages stay one line.
bad=$(printf 'a\nb\033[31m\302\233c\177')
clean() { # FILE
	if LC_ALL=C tr -d '\n' <"$1" | grep -aqP '[\x00-\x1f\x7f]|\xc2[\x80-\x9f]'; then cat -v "$1"; exit 1; fi
}
refused() {
	code=0
	"$orrery" "$@" >out 2>err || code=$?
	[ $code -eq 2 ] && [ "$(wc -l <err)" -eq 1 ] || { echo "$*: exit code $code"; cat -v err; exit 1; }
	clean err
	grep -qF '\x1b[31m\xc2\x9bc\x7f' err || { cat -v err; exit 1; }
}
refused "$bad"
refused show "/nn/$bad"
refused simulate chain:2 --svg "/nn/$bad"
refused simulate chain:2 -s "$bad"
refused simulate chain:2 -s "./$bad.so"
refused simulate chain:2 -s "1f1b:$bad=1"
refused simulate chain:2 --jitter "$bad"
refused simulate chain:2 --lengths "$bad"
refused plan chain:2 -w 2 --link "$bad"
refused plan chain:2 -w "2x$bad"
refused compare chain:2 -m "$bad"

# a graph, a schedule, a machine and a plan of such names
printf 'digraph { node [forward="1ms" backward="2ms"]; a [label="x\033[31m\ny"]; a -> b }\n' >"$bad.dot"
printf 'graph { "a\033[31m\nb" [repeat=2] }\n' >"m$bad.dot"
"$orrery" simulate "$bad.dot" -m 2 --csv "$bad.csv" >out 2>err
clean out && clean err
for words in 'show' 'simulate' 'compare' 'plan -w 2'; do
	"$orrery" $words "$bad.dot" >out 2>err
	clean out && clean err
done
for words in simulate compare; do
	"$orrery" $words "$bad.dot" -s "$bad.csv" >out 2>err
	clean out && clean err
done
"$orrery" simulate "$bad.dot" --machine "m$bad.dot" >out 2>err
clean out && clean err
"$orrery" plan "$bad.dot" -w 2 -o "p$bad" >out 2>err
"$orrery" simulate "p$bad" >out 2>err
clean out && clean err
"$orrery" compare "p$bad" >out 2>err
clean out && clean err

# names within files are shown alike: in a cell of a schedule, a tensor of a header, a word of a graph
within() { # ARGUMENTS...
	code=0
	"$orrery" "$@" >out 2>err || code=$?
	[ $code -eq 2 ] && [ "$(wc -l <err)" -eq 1 ] && clean err && grep -qF '\x1b[31m\xc2\x9bc' err || { cat -v err; exit 1; }
}
printf '0F0,\033[31m\302\233c\n' >cell.csv
within simulate chain:1 -m 1 -s ./cell.csv
printf '0F0,0F1\033[31m\302\233c\n' >rest.csv
within simulate chain:1 -m 1 -s ./rest.csv
printf 'digraph { a [op="\033[31m\302\233c"]; }\n' >names.dot
within show names.dot
python3 - <<'E'
import json, struct
header = json.dumps({'\x1b[31m\x9bc': {'dtype': 'F32', 'shape': [1], 'data_offsets': [0, 4]}}, ensure_ascii=False).encode()
open('name.safetensors', 'wb').write(struct.pack('<Q', len(header)) + header + b'\0\0\0\0')
E
sed 's/data=".*";/data="name.safetensors";/' "$source/graphs/digits.dot" >names.dot
[ "$can_train" = no ] || within train names.dot --steps 1
