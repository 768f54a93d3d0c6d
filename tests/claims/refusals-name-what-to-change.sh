# A refusal names what the user can change: the cells of a CSV rather than a function, and never "nothing".
printf '0B0,0F0\n' >stuck.csv
if "$orrery" simulate chain:1 --schedule stuck.csv 2>err; then exit 1; fi
grep -q 'change the order of its cells' err
if grep -q 'priority()' err; then exit 1; fi
if "$orrery" plan chain:4 -w 2x 2>err; then exit 1; fi
grep -q 'say 4, or 4x2' err
if "$orrery" simulate chain:4 -m '' 2>err; then exit 1; fi
grep -q "''" err
if grep -q 'nothing' err; then exit 1; fi
