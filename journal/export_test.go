package journal

import "os"

// What the tests of faults need.
type (
	Disk = disk
	File = file
)

// OnDisk returns the options with a disk of the test's.
func (o Options) OnDisk(d Disk) Options {
	o.disk = d
	return o
}

// TestDisk is the disk of this machine, in which calls can be made to fail.
type TestDisk struct {
	osDisk
	// Fault is asked before each write, sync and truncation, by its name; n is what of a write may be done all the same.
	Fault func(what string) (n int, err error)
}

func (d *TestDisk) open(path string) (file, error) {
	f, err := d.osDisk.open(path)
	if err != nil {
		return nil, err
	}
	return &testFile{f, d}, nil
}

type testFile struct {
	file
	d *TestDisk
}

func (f *testFile) WriteAt(b []byte, at int64) (int, error) {
	if n, err := f.d.Fault("write"); err != nil {
		n = min(n, len(b))
		if n > 0 {
			if _, err := f.file.WriteAt(b[:n], at); err != nil {
				return 0, err
			}
		}
		return n, err
	}
	return f.file.WriteAt(b, at)
}

func (f *testFile) Sync() error {
	if _, err := f.d.Fault("sync"); err != nil {
		return err
	}
	return f.file.Sync()
}

func (f *testFile) Truncate(n int64) error {
	if _, err := f.d.Fault("truncate"); err != nil {
		return err
	}
	return f.file.Truncate(n)
}

func (f *testFile) Stat() (os.FileInfo, error) { return f.file.Stat() }

// LineOf is the codec, both ways.
func LineOf(e *Entry) ([]byte, error) {
	body, err := appendBody(nil, e)
	if err != nil {
		return nil, err
	}
	return appendLine(nil, e.Seq, body), nil
}

// ParseLine reads a line without its end.
func ParseLine(b []byte) (Entry, error) { return parseLine(b) }

// Summed is b with a checksum that is right, if it has a line's length.
func Summed(b []byte) []byte {
	if len(b) < sumSize {
		return b
	}
	line := appendSum(append([]byte(nil), b[:len(b)-sumSize]...), 0)
	return line[:len(line)-1]
}

// Queued is how many writes wait for a sync to end.
func Queued(j *Journal) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.writes)
}
