// Package fileset turns a folder into blobs with a manifest that lists them, and back.
//
// A manifest is a blob of JSON lines. The first says the version of the format;
// each other is an entry, in ascending order of the paths' bytes:
//
//	{"fileset":1}
//	{"path":"bin/tool","mode":"755","size":7,"blob":"<SHA-256>"}
//	{"path":"bin/old","link":"tool"}
//	{"path":"empty","mode":"755","dir":true}
//
// Paths are relative, with slashes. Folders are listed when they are empty;
// others come with what is in them. Modes are the permissions, in octal.
package fileset

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/haulier/haulier"
)

const (
	format  = 1
	maxPath = 4096     // bytes
	maxLine = 64 << 10 // of a manifest
	perm    = 0o777    // what is kept of a mode
)

// Entry is a file, a link or an empty folder.
type Entry struct {
	Path string `json:"path"`
	Mode Mode   `json:"mode,omitempty"` // of files and folders
	Size int64  `json:"size,omitempty"`
	Blob string `json:"blob,omitempty"` // address of a file's content
	Link string `json:"link,omitempty"` // where a link leads
	Dir  bool   `json:"dir,omitempty"`
}

// Mode is a file's permissions.
type Mode uint32

// MarshalText implements encoding.TextMarshaler.
func (m Mode) MarshalText() ([]byte, error) { return strconv.AppendUint(nil, uint64(m), 8), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Mode) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 8, 32)
	if err != nil || v > perm {
		return fmt.Errorf("%w: %.20q are no permissions in octal, such as 644", haulier.ErrInvalid, b)
	}
	*m = Mode(v)
	return nil
}

type header struct {
	Fileset int `json:"fileset"`
}

// encode is the manifest of entries that are in order.
func encode(entries []Entry) ([]byte, error) {
	var out bytes.Buffer
	w := json.NewEncoder(&out)
	w.SetEscapeHTML(false)
	err := w.Encode(header{format})
	for i := range entries {
		if err == nil {
			err = w.Encode(&entries[i])
		}
	}
	return out.Bytes(), err
}

// Read reads a manifest and gives each of its entries to f, until f fails. ErrInvalid: it is
// none, or an entry would lead out of the folder that it is put in, by its path or through a link.
func Read(r io.Reader, f func(*Entry) error) error {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, maxLine), maxLine)
	check := checker{leaves: map[string]bool{}}
	n := 0
	for ; in.Scan(); n++ {
		if n == 0 {
			var h header
			if err := json.Unmarshal(in.Bytes(), &h); err != nil || h.Fileset != format {
				return invalid("is no manifest of format %d: its first line is %.80q", format, in.Bytes())
			}
			continue
		}
		if n > haulier.MaxFiles {
			return invalid("has more than %d entries", haulier.MaxFiles)
		}
		var e Entry
		d := json.NewDecoder(bytes.NewReader(in.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&e); err != nil {
			return invalid("line %d: %v", n+1, err)
		}
		if err := check.entry(&e); err != nil {
			return invalid("line %d: %v", n+1, err)
		}
		if err := f(&e); err != nil {
			return err
		}
	}
	if err := in.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return invalid("line %d is longer than %d bytes", n+1, maxLine)
		}
		return err
	}
	if n == 0 {
		return invalid("is empty")
	}
	return nil
}

func invalid(text string, args ...any) error {
	return fmt.Errorf("%w: the manifest %s", haulier.ErrInvalid, fmt.Sprintf(text, args...))
}

// checker sees the entries of a manifest in their order.
type checker struct {
	last   string
	leaves map[string]bool // what can have nothing in it
}

func (c *checker) entry(e *Entry) error {
	if err := checkPath(e.Path); err != nil {
		return err
	}
	if e.Path <= c.last {
		return fmt.Errorf("%q does not come after %q", e.Path, c.last)
	}
	c.last = e.Path
	for dir := path.Dir(e.Path); dir != "."; dir = path.Dir(dir) {
		if c.leaves[dir] {
			return fmt.Errorf("%q lies in %q, which is no folder", e.Path, dir)
		}
	}
	switch {
	case e.Dir:
		if e.Blob != "" || e.Link != "" || e.Size != 0 {
			return fmt.Errorf("%q is a folder and more", e.Path)
		}
		return nil
	case e.Link != "":
		if e.Blob != "" || e.Size != 0 || len(e.Link) > maxPath || strings.ContainsRune(e.Link, 0) {
			return fmt.Errorf("%q is no good link", e.Path)
		}
	default:
		if err := haulier.CheckBlobAddress(e.Blob); err != nil || e.Size < 0 {
			return fmt.Errorf("%q is a file without a blob or of a size below 0", e.Path)
		}
	}
	c.leaves[e.Path] = true
	return nil
}

// checkPath accepts what names a file within a folder, everywhere in the same way.
func checkPath(p string) error {
	switch {
	case p == "" || p == "." || len(p) > maxPath || !filepath.IsLocal(p) || path.Clean(p) != p:
		return fmt.Errorf("%.80q is no path within a folder", p)
	case !utf8.ValidString(p) || strings.ContainsAny(p, "\x00\\"):
		return fmt.Errorf("%.80q has a character that is not the same everywhere: rename the file, or leave it out", p)
	}
	return nil
}

// Patterns select paths: globs in which ** stands for any folders. Those that begin with ! leave out what they match.
type Patterns []string

// Check returns ErrInvalid for a pattern that can't be read.
func (p Patterns) Check() error {
	if len(p) > haulier.MaxPatterns {
		return fmt.Errorf("%w: %d patterns: at most %d", haulier.ErrInvalid, len(p), haulier.MaxPatterns)
	}
	for _, g := range p {
		if g = strings.TrimPrefix(g, "!"); g == "" || len(g) > maxPath || !doublestar.ValidatePattern(g) {
			return fmt.Errorf("%w: %.80q is no pattern: write such as **/*.dat, or !tmp/** for what is left out", haulier.ErrInvalid, g)
		}
	}
	return nil
}

// Select reports whether a path is selected. Without a pattern that selects, all are but those left out.
func (p Patterns) Select(file string) bool {
	chosen, any := false, false
	for _, g := range p {
		if out, not := strings.CutPrefix(g, "!"); not {
			if doublestar.MatchUnvalidated(out, file) {
				return false
			}
			continue
		}
		any = true
		chosen = chosen || doublestar.MatchUnvalidated(g, file)
	}
	return chosen || !any
}
