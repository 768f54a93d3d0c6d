# A refusal names what the user can change: the cells of a CSV rather than a function, and never "nothing".
printf '0B0,0F0\n' >stuck.csv
! "$orrery" simulate chain:1 --schedule stuck.csv 2>err
grep -q 'change the order of its cells' err
! grep -q 'priority()' err
! "$orrery" plan chain:4 -w 2x 2>err
grep -q 'say 4, or 4x2' err
! "$orrery" simulate chain:4 -m '' 2>err
grep -q "''" err
! grep -q 'nothing' err
