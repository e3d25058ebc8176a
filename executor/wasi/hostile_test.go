package wasi_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/executor/wasi"
)

// made is a module of a few bytes. Its functions are fd_write (0), proc_exit (1) and its own (2), which is _start.
type made struct {
	body   []byte // of its own function, without the end
	pages  uint64 // of memory; 0: 1
	table  bool   // it has a table without a maximum
	at     bool   // its function runs when it is instantiated already
	export string // of its function; "": _start
}

func (m made) bytes() []byte {
	num := func(v uint64) []byte { return binary.AppendUvarint(nil, v) }
	name := func(s string) []byte { return append(num(uint64(len(s))), s...) }
	out := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id byte, parts ...[]byte) {
		content := bytes.Join(parts, nil)
		out = append(append(append(out, id), num(uint64(len(content)))...), content...)
	}
	from := name("wasi_snapshot_preview1")
	section(1, []byte("\x03\x60\x00\x00\x60\x01\x7f\x00\x60\x04\x7f\x7f\x7f\x7f\x01\x7f"))
	section(2, []byte{2}, from, name("fd_write"), []byte{0, 2}, from, name("proc_exit"), []byte{0, 1})
	section(3, []byte{1, 0})
	if m.table {
		section(4, []byte{1, 0x70, 0, 1})
	}
	section(5, []byte{1, 0}, num(max(m.pages, 1)))
	if m.export == "" {
		m.export = "_start"
	}
	section(7, []byte{2}, name("memory"), []byte{2, 0}, name(m.export), []byte{0, 2})
	if m.at {
		section(8, []byte{2})
	}
	body := append(append([]byte{0}, m.body...), 0x0b)
	section(10, []byte{1}, num(uint64(len(body))), body)
	section(11, []byte{1, 0, 0x41, 0, 0x0b}, name("\x20\x00\x00\x00\x00\x40\x00\x00")) // at 0: where fd_write finds 16 KiB
	return out
}

// Parts of bodies.
const (
	forever   = "\x03\x40\x0c\x00\x0b"
	writeLoop = "\x03\x40\x41\x01\x41\x00\x41\x01\x41\x10\x10\x00\x1a\x0c\x00\x0b" // standard output
	errorLoop = "\x03\x40\x41\x02\x41\x00\x41\x01\x41\x10\x10\x00\x1a\x0c\x00\x0b" // standard error
	growLoop  = "\x03\x40\x41\x10\x40\x00\x41\x7f\x47\x0d\x00\x0b\x3f\x00\x10\x01" // until it gets no more pages, of which it exits with the number
	tableLoop = "\x03\x40\xd0\x70\x41\xa0\x8d\x06\xfc\x0f\x00\x41\x7f\x47\x0d\x00\x0b\xfc\x10\x00\x41\x10\x76\x10\x01"
	recurse   = "\x10\x02"
	trap      = "\x00"
	hello     = "\x41\x01\x41\x00\x41\x01\x41\x10\x10\x00\x1a" // writes 16 KiB to standard output
)

func TestHostile(t *testing.T) {
	r := newRig(t, wasi.Config{Memory: 8 << 20})
	put := func(body string) string { return r.put(made{body: []byte(body)}.bytes()) }
	run := func(timeout time.Duration, task haulier.WasiTask) (res struct {
		haulier.Outcome
		code       int
		why, log   string
		result     int
		resultBlob string
	}) {
		t.Helper()
		j := r.job(task)
		j.Timeout = haulier.Duration(timeout)
		got, log := r.finish(r.prepare(j))
		res.Outcome, res.code, res.why, res.log, res.result, res.resultBlob = got.Outcome, got.Code, got.Error, log, len(got.Result), got.ResultBlob
		return res
	}
	const short = 100 * time.Millisecond

	t.Run("a loop ends with its timeout", func(t *testing.T) {
		if res := run(short, haulier.WasiTask{Module: put(forever)}); res.Outcome != haulier.OutcomeError || res.why != "timed out after 100ms" {
			t.Errorf("%+v", res)
		}
		atOnce := r.put(made{body: []byte(forever), at: true}.bytes())
		if res := run(short, haulier.WasiTask{Module: atOnce}); res.why != "timed out after 100ms" {
			t.Errorf("before its start: %+v", res)
		}
	})
	t.Run("a loop ends with its processor time", func(t *testing.T) {
		if res := run(0, haulier.WasiTask{Module: put(forever), CPU: haulier.Duration(50 * time.Millisecond)}); res.Outcome != haulier.OutcomeError || !strings.Contains(res.why, "processor time") {
			t.Errorf("%+v", res)
		}
	})
	t.Run("a loop ends when it is stopped", func(t *testing.T) {
		a := r.prepare(r.job(haulier.WasiTask{Module: put(forever)}))
		defer a.Close()
		a.Start(t.Context(), &sink{})
		a.Stop(-1)
		if res, err := a.Wait(t.Context()); err != nil || !res.Stopped {
			t.Errorf("%+v %v", res, err)
		}
	})
	t.Run("memory grows to its bound and no further", func(t *testing.T) {
		if res := run(0, haulier.WasiTask{Module: put(growLoop)}); res.code < 112 || res.code > 128 { // of 64 KiB
			t.Errorf("it got %d pages", res.code)
		}
		if res := run(0, haulier.WasiTask{Module: put(growLoop), Memory: 2 << 20}); res.code < 16 || res.code > 32 {
			t.Errorf("with less it got %d pages", res.code)
		}
		large := r.put(made{body: []byte(trap), pages: 200}.bytes())
		if res := run(0, haulier.WasiTask{Module: large}); res.Outcome != haulier.OutcomeFailed || !strings.Contains(res.why, "needs 13107200 bytes of memory") {
			t.Errorf("%+v", res)
		}
		if res := run(0, haulier.WasiTask{Module: large, Memory: 1 << 30}); res.Outcome != haulier.OutcomeFailed || !strings.Contains(res.why, "--wasi-memory") {
			t.Errorf("%+v", res)
		}
	})
	t.Run("a table grows to its bound and no further", func(t *testing.T) {
		if res := run(0, haulier.WasiTask{Module: r.put(made{body: []byte(tableLoop), table: true}.bytes())}); res.code != 15 { // of 65536 entries
			t.Errorf("%+v", res)
		}
	})
	t.Run("a trap is an error, and what was written before is kept", func(t *testing.T) {
		res := run(0, haulier.WasiTask{Module: put(hello + trap)})
		if res.Outcome != haulier.OutcomeError || !strings.Contains(res.why, "unreachable") || res.result != 16<<10 || len(r.read(res.resultBlob)) != 16<<10 {
			t.Errorf("%+v", res)
		}
		if res := run(0, haulier.WasiTask{Module: put(recurse)}); res.Outcome != haulier.OutcomeError || !strings.Contains(res.why, "stack overflow") {
			t.Errorf("%+v", res)
		}
	})
	t.Run("output without an end is bounded", func(t *testing.T) {
		res := run(0, haulier.WasiTask{Module: put(writeLoop)})
		if res.Outcome != haulier.OutcomeFailed || !strings.Contains(res.why, "standard output") || res.result != haulier.MaxResult || len(r.read(res.resultBlob)) != haulier.MaxBlobPayload {
			t.Errorf("%v %s: %d", res.Outcome, res.why, res.result)
		}
		if res := run(time.Second, haulier.WasiTask{Module: put(errorLoop)}); len(res.log) > 9<<20 || !strings.Contains(res.log[max(0, len(res.log)-100):], "were left out") {
			t.Errorf("%d bytes of log", len(res.log))
		}
	})
	t.Run("what is no program fails for good", func(t *testing.T) {
		for text, content := range map[string][]byte{
			"no WebAssembly module":       []byte("#!/bin/sh"),
			"does not end within it":      []byte("\x00asm\x01\x00\x00\x00\x04\xff"),
			"can't be compiled":           append([]byte("\x00asm\x01\x00\x00\x00"), 10, 1, 5),
			"table section is damaged":    append([]byte("\x00asm\x01\x00\x00\x00"), 4, 3, 1, 0x70, 9),
			"no function _start":          made{body: []byte(trap), export: "run"}.bytes(),
			"not of WASI preview 1":       bytes.ReplaceAll(made{body: []byte(trap)}.bytes(), []byte("preview1"), []byte("preview9")),
			"has a table of 2000000 entr": append([]byte("\x00asm\x01\x00\x00\x00"), 4, 6, 1, 0x70, 0, 0x80, 0x89, 0x7a),
		} {
			if res := run(0, haulier.WasiTask{Module: r.put(content)}); res.Outcome != haulier.OutcomeFailed || !strings.Contains(res.why, text) {
				t.Errorf("%s: %+v", text, res)
			}
		}
		if res := run(0, haulier.WasiTask{Module: haulier.BlobAddress([]byte("none"))}); res.Outcome != haulier.OutcomeFailed {
			t.Errorf("a module that is not there: %+v", res)
		}
	})
}
