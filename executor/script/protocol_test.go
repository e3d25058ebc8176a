package script_test

import (
	"encoding/base64"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor/script"
)

func FuzzDone(f *testing.F) {
	for _, line := range []string{
		"done 0 200 0 - -", "done 0 120 1500 - bGF0ZXI=", "done 0 404 0 - -", "done 1 200 0 - -", "done 0 300 0 - -", "done 0 200 -1 - -",
		"done 0 200 0 * -", "done 0 200 0", "end 200 -", "", "done 0 500 99999999999999999999 - -",
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := script.ReadDone(line, 0)
		if err != nil {
			return
		}
		if !r.Outcome.Valid() || len(r.Result) > haulier.MaxResult || r.Delay < 0 || r.Delay > haulier.MaxHookDelay || (r.Error == "") != (r.Outcome == haulier.OutcomeOK) {
			t.Errorf("%q is %+v", line, r)
		}
	})
}

func FuzzSplit(f *testing.F) {
	f.Add("one|two|three", uint8(3))
	f.Add("||", uint8(1))
	f.Add("a\x1eMAR|K\x1e|\x1e", uint8(2))
	const mark = "\x1eMARK\x1e"
	f.Fuzz(func(t *testing.T, text string, size uint8) {
		parts := strings.Split(text, "|")
		if strings.Contains(text, "MARK") || len(parts) > 50 {
			return
		}
		output := []byte(strings.Join(parts, mark))
		got := script.Split(mark, len(parts), slices.Collect(slices.Chunk(output, 1+int(size))))
		if !slices.Equal(got, parts) {
			t.Errorf("pieces of %d: %q became %q", 1+int(size), parts, got)
		}
	})
}

func TestALineIsBounded(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var writing sync.WaitGroup
	defer writing.Wait()
	defer w.Close()
	defer r.Close()
	long := base64.StdEncoding.EncodeToString(make([]byte, haulier.MaxResult))
	writing.Go(func() { w.WriteString("one\n" + long + "\n" + strings.Repeat("x", script.MaxLine)) })
	r.SetReadDeadline(time.Now().Add(20 * time.Second))
	all, err := script.Lines(r)
	if len(all) != 2 || all[0] != "one" || all[1] != long || err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("%d lines, %v", len(all), err)
	}
}
