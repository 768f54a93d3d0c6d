"""What a test program has checked, told in a last line that tools/count-tests reads."""
import sys

checks, failures = 0, []


def check(right, message):
    global checks
    checks += 1
    if not right:
        failures.append(message)


def finish():
    """Ends the program: with 1 where something failed, or nothing was checked."""
    for failure in failures:
        print('FAILED:', failure)
    print(f'{100 * (checks - len(failures)) // max(1, checks)}%: Checks: {checks}, Failures: {len(failures)}, Errors: 0')
    sys.exit(bool(failures) or not checks)
