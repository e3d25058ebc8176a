package e2e_test

import (
	"bufio"
	"fmt"
	"os"
	"testing"

	"github.com/haulier/haulier"
)

// The ledger is what attempts did in the world, apart from what the server says
// of them: a file to which each attempt appends a line when it begins and one
// when it ends, and long ones a line now and then. Lines are written at once, so their order is that of the events.
//
//	begin JOB ATTEMPT
//	beat JOB ATTEMPT
//	end JOB ATTEMPT

// marked is a command line that writes the ledger and takes $1 seconds in between.
const marked = `printf 'begin %s %s\n' "$HAULIER_JOB_ID" "$HAULIER_ATTEMPT" >>"$0"
sleep "$1"
printf 'end %s %s\n' "$HAULIER_JOB_ID" "$HAULIER_ATTEMPT" >>"$0"`

// beating is as marked, with a beat every tenth of a second for $1 tenths, each of which it also prints.
const beating = `mark() { printf '%s %s %s\n' "$1" "$HAULIER_JOB_ID" "$HAULIER_ATTEMPT" >>"$ledger"; }
ledger="$0"
mark begin
i=0
while [ $i -lt "$1" ]; do i=$((i+1)); echo "beat $i"; sleep 0.1; mark beat; done
mark end`

// flaky is as marked, but asks to run again at its first attempt.
const flaky = marked + `
test "$HAULIER_ATTEMPT" -gt 1 || exit 75`

func mark(ledger, what string, ref haulier.Ref) error {
	f, err := os.OpenFile(ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintf(f, "%s %v %d\n", what, ref.Job, ref.Attempt)
	return err
}

// deeds of one attempt, by the numbers of their lines.
type deeds struct {
	begun, ended []int
}

// readLedger returns the deeds by attempt, and fails the test where a line of an
// attempt stands after the begin of a later one: two of them ran at a time.
func readLedger(t testing.TB, path string) map[haulier.Ref]*deeds {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[haulier.Ref]*deeds{}
	newest := map[haulier.ID]int{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		what, ref := parseLine(t, n, lines.Text())
		if ref.Attempt < newest[ref.Job] {
			t.Errorf("ledger line %d: %q after attempt %d had begun", n, lines.Text(), newest[ref.Job])
		}
		newest[ref.Job] = max(newest[ref.Job], ref.Attempt)
		d := all[ref]
		if d == nil {
			d = &deeds{}
			all[ref] = d
		}
		switch what {
		case "begin":
			d.begun = append(d.begun, n)
		case "end":
			d.ended = append(d.ended, n)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func parseLine(t testing.TB, n int, line string) (string, haulier.Ref) {
	t.Helper()
	var what, job string
	var ref haulier.Ref
	if _, err := fmt.Sscan(line, &what, &job, &ref.Attempt); err != nil || what != "begin" && what != "beat" && what != "end" {
		t.Fatalf("ledger line %d: %q: %v", n, line, err)
	}
	id, err := haulier.ParseID(job)
	if err != nil {
		t.Fatalf("ledger line %d: %v", n, err)
	}
	ref.Job = id
	return what, ref
}
