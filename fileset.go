package haulier

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// Bounds of filesets and blobs.
const (
	MaxInputs    = 32        // filesets that a job is given
	MaxPatterns  = 64        // of an input or output
	MaxFiles     = 1_000_000 // entries of a manifest
	MaxManifest  = 256 << 20 // bytes of a manifest
	MaxAddresses = 10_000    // addresses of one question
)

// Blobs keeps content by its address (the SHA-256 in hex), and filesets. Both belong to a tenant: others neither
// see them nor can tell that they are there. Safe for concurrent use.
type Blobs interface {
	// PutBlob keeps content, which must have the address. What nothing refers to is removed a day after
	// it was last put or asked for by MissingBlobs. ErrTooLarge: the tenant's quota is used up.
	PutBlob(ctx context.Context, tenant, addr string, content io.Reader) error
	// ReadBlob returns content from an offset on, n bytes or, when n is negative, all that follow, and the size of the
	// whole. Of a whole blob, the end is ErrCorrupt when its bytes are not those of the address. ErrNotFound: the tenant has none such.
	ReadBlob(ctx context.Context, tenant, addr string, from, n int64) (content io.ReadCloser, size int64, err error)
	// MissingBlobs returns those of up to MaxAddresses addresses that are not there. The others stay for a day at least.
	MissingBlobs(ctx context.Context, tenant string, addrs []string) ([]string, error)

	// AddFileset makes the next version of a fileset. Its manifest (see package fileset) and all that it lists must be there.
	AddFileset(ctx context.Context, r FilesetRequest) (Fileset, error)
	// Filesets lists the newest version of each fileset of a tenant, by name, after the given one; with a name, all versions of that one.
	Filesets(ctx context.Context, tenant, name, after string, limit int) ([]Fileset, error)
	// Fileset returns a version; 0 is the newest. ErrNotFound: there is none.
	Fileset(ctx context.Context, tenant, name string, version int) (Fileset, error)
	// DeleteFileset removes a version, or all of them when it is 0. Jobs that run with it keep its files until they are removed.
	DeleteFileset(ctx context.Context, tenant, name string, version int) error
}

// BlobAddress names content: its SHA-256 in hex.
func BlobAddress(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// CheckBlobAddress returns ErrInvalid unless addr is an address, in small letters.
func CheckBlobAddress(addr string) error {
	if b, err := hex.DecodeString(addr); err != nil || len(b) != sha256.Size || hex.EncodeToString(b) != addr {
		return fmt.Errorf("%w: %.80q is not the address of a blob: a SHA-256 in 64 hex digits, small letters", ErrInvalid, addr)
	}
	return nil
}

// Fileset is one version of a named set of files. It never changes.
type Fileset struct {
	Tenant    string    `json:"tenant"`
	Name      string    `json:"name"`
	Version   int       `json:"version"`
	Manifest  string    `json:"manifest"` // address of the list of its files
	Files     int       `json:"files"`
	Size      int64     `json:"size"` // bytes of the files
	CreatedAt time.Time `json:"created_at"`
	By        string    `json:"by,omitempty"`
	Job       ID        `json:"job,omitzero"` // that made it
}

// String returns name@version.
func (f *Fileset) String() string { return FilesetRef(f.Name, f.Version) }

// FilesetRef is how a version is written: name@version, or just the name for the newest.
func FilesetRef(name string, version int) string {
	if version == 0 {
		return name
	}
	return name + "@" + strconv.Itoa(version)
}

// ParseFilesetRef is the reverse of FilesetRef. ErrInvalid: the version is no number from 1 on.
func ParseFilesetRef(s string) (name string, version int, err error) {
	name, v, pinned := strings.Cut(s, "@")
	if !pinned {
		return name, 0, nil
	}
	if version, err = strconv.Atoi(v); err != nil || version < 1 {
		return "", 0, &FieldError{Field: "fileset", Msg: strconv.Quote(s) + " has no version after the @: write name@3, or the name alone for the newest"}
	}
	return name, version, nil
}

// FilesetRequest asks for a new version.
type FilesetRequest struct {
	Tenant   string
	Name     string
	Manifest string // address
	Keep     int    // versions that stay, the newest first; 0: all
	By       string
}

// Files are what a job finds in its working folder, and what stays of it.
type Files struct {
	Inputs  []Input `json:"inputs,omitempty"`  // put there before the start, in this order
	Outputs *Output `json:"outputs,omitempty"` // kept when it has ended
}

// FilesOf is what a spec has of inputs and outputs: nil when there are none.
func FilesOf(inputs []Input, outputs *Output) *Files {
	if len(inputs) == 0 && outputs == nil {
		return nil
	}
	return &Files{Inputs: inputs, Outputs: outputs}
}

// Input is a fileset, or a part of one, that a job finds in its working folder. One of Fileset and From is set.
type Input struct {
	// Fileset is name@version; without a version the newest when the job's first attempt starts. Later attempts get the same.
	Fileset string `json:"fileset,omitempty"`
	// From is the Ref of a job that this one needs: its output.
	From     string   `json:"from,omitempty"`
	Patterns []string `json:"patterns,omitempty"` // globs with **, those that begin with ! leave out; none: everything
	To       string   `json:"to,omitempty"`       // folder within the working folder
}

// Output says what becomes a version of a fileset when an attempt has ended.
type Output struct {
	Fileset  string    `json:"fileset"` // its name
	Patterns []string  `json:"patterns,omitempty"`
	On       Condition `json:"on,omitempty"`   // succeeded unless said; failed and finished keep it of failed attempts too
	Keep     int       `json:"keep,omitempty"` // versions that stay, the newest first; 0: all
}

// Wanted reports whether an attempt that ended so leaves its output.
func (o *Output) Wanted(ended Outcome) bool {
	switch o.On {
	case OnFinished:
		return true
	case OnFailed:
		return ended != OutcomeOK
	}
	return ended == OutcomeOK
}

// JobFiles is what an attempt's worker has to fetch and to keep.
type JobFiles struct {
	Tenant  string      `json:"tenant"`
	Inputs  []FileInput `json:"inputs,omitempty"`
	Outputs *Output     `json:"outputs,omitempty"`
}

// FileInput is an input whose version is settled.
type FileInput struct {
	Fileset  string   `json:"fileset"` // name@version
	Manifest string   `json:"manifest"`
	Patterns []string `json:"patterns,omitempty"`
	To       string   `json:"to,omitempty"`
}
