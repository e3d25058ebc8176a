package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/fileset"
)

// The documents of filesets.
const (
	DocFileset     haulier.DocKind = "fileset"     // key: tenant/name/version; never changes
	DocFilesetHead haulier.DocKind = "filesethead" // key: tenant/name; stays when all versions were removed, so that no version comes twice
)

// filesetHead says which versions there are.
type filesetHead struct {
	Last  int `json:"last"`            // the highest version that ever was
	Alive int `json:"alive,omitempty"` // the newest version that is there; 0: none
}

func filesetKey(tenant, name string, version int) string {
	return fmt.Sprintf("%s/%s/%010d", tenant, name, version)
}

func filesetHolder(name string, version int) string { return "=" + haulier.FilesetRef(name, version) }

// checkFilesetName accepts what can stand before the version.
func checkFilesetName(field_, name string) error {
	if err := checkName(field_, name); err != nil {
		return err
	}
	if strings.ContainsAny(name, "@:") {
		return field(field_, fmt.Sprintf("%.40q has @ or : in it, which come after the name", name))
	}
	return nil
}

// filing makes versions of filesets in one commit.
type filing struct {
	e     *Engine
	puts  *keeping
	now   time.Time
	heads map[string]*filedHead
	order []*filedHead
	docs  []haulier.DocWrite
	freed []string // keys of manifests that were let go
}

type filedHead struct {
	filesetHead
	key string
	rev uint64
}

// head is how a fileset stands after what is filed already.
func (f *filing) head(ctx context.Context, tenant, name string) (*filedHead, error) {
	key := tenant + "/" + name
	if h := f.heads[key]; h != nil {
		return h, nil
	}
	head, rev, err := f.e.filesetHead(ctx, key)
	if err != nil {
		return nil, err
	}
	h := &filedHead{filesetHead: head, key: key, rev: rev}
	if f.heads == nil {
		f.heads = map[string]*filedHead{}
	}
	f.heads[key] = h
	f.order = append(f.order, h)
	return h, nil
}

func (e *Engine) filesetHead(ctx context.Context, key string) (h filesetHead, rev uint64, err error) {
	d, err := e.store.Doc(ctx, DocFilesetHead, key)
	if errors.Is(err, haulier.ErrNotFound) {
		return h, 0, nil
	}
	if err == nil {
		err = json.Unmarshal(d.Value, &h)
	}
	if err != nil {
		return h, 0, fmt.Errorf("fileset %s: %w", key, err)
	}
	return h, d.Rev, nil
}

// add makes the next version. ErrInvalid: the manifest is none, or lists what is not there.
func (f *filing) add(ctx context.Context, r *haulier.FilesetRequest, job haulier.ID) (haulier.Fileset, error) {
	out := haulier.Fileset{Tenant: r.Tenant, Name: r.Name, Manifest: r.Manifest, CreatedAt: f.now.UTC(), By: r.By, Job: job}
	if err := f.count(ctx, &out); err != nil {
		return out, err
	}
	h, err := f.head(ctx, r.Tenant, r.Name)
	if err != nil {
		return out, err
	}
	h.Last++
	h.Alive = h.Last
	out.Version = h.Last
	v, err := json.Marshal(&out)
	if err != nil {
		return out, err
	}
	f.docs = append(f.docs, haulier.DocWrite{Kind: DocFileset, Key: filesetKey(r.Tenant, r.Name, out.Version), Value: v})
	f.puts.manifest(r.Tenant, r.Manifest, filesetHolder(r.Name, out.Version))
	if r.Keep > 0 {
		return out, f.thin(ctx, r, out.Version)
	}
	return out, nil
}

// count reads the manifest, and makes sure that all it lists stays until the commit.
func (f *filing) count(ctx context.Context, out *haulier.Fileset) error {
	seen := map[string]bool{}
	content, err := f.e.readBlob(ctx, out.Tenant, out.Manifest)
	if errors.Is(err, haulier.ErrNotFound) {
		return field("manifest", "is the address of no blob of the tenant: put it first")
	}
	if err != nil {
		return err
	}
	err = fileset.Read(strings.NewReader(string(content)), func(e *fileset.Entry) error {
		if e.Dir {
			return nil
		}
		out.Files++
		out.Size += e.Size
		if e.Blob == "" || seen[e.Blob] {
			return nil
		}
		seen[e.Blob] = true
		there, err := f.e.renewBlob(ctx, blobKey(out.Tenant, e.Blob), f.now)
		if err == nil && !there {
			err = field("manifest", fmt.Sprintf("lists %.80q, whose blob is not there: put it first", e.Path))
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("fileset %s: %w", out.Name, err)
	}
	return nil
}

// thin removes the versions but the newest r.Keep.
func (f *filing) thin(ctx context.Context, r *haulier.FilesetRequest, newest int) error {
	prefix := r.Tenant + "/" + r.Name + "/"
	for after := ""; ; {
		docs, err := f.e.store.Docs(ctx, DocFileset, prefix, after, 200)
		if err != nil {
			return err
		}
		for _, d := range docs {
			after = d.Key
			var old haulier.Fileset
			if err := json.Unmarshal(d.Value, &old); err != nil {
				return fmt.Errorf("fileset %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
			}
			if old.Version <= newest-r.Keep {
				f.drop(&old, d.Rev)
			}
		}
		if len(docs) < 200 {
			return nil
		}
	}
}

// drop removes a version, once.
func (f *filing) drop(old *haulier.Fileset, rev uint64) {
	key := filesetKey(old.Tenant, old.Name, old.Version)
	for i := range f.docs {
		if f.docs[i].Key == key && f.docs[i].Kind == DocFileset {
			return
		}
	}
	manifest := blobKey(old.Tenant, old.Manifest)
	f.docs = append(f.docs,
		haulier.DocWrite{Kind: DocFileset, Key: key, Expect: rev},
		haulier.DocWrite{Kind: haulier.DocBlobRef, Key: manifest + "/" + filesetHolder(old.Name, old.Version), Expect: haulier.AnyRev})
	f.freed = append(f.freed, manifest)
}

// writes are the documents of what was filed.
func (f *filing) writes() []haulier.DocWrite {
	out := f.docs
	for _, h := range f.order {
		v, _ := json.Marshal(h.filesetHead) // two numbers
		out = append(out, haulier.DocWrite{Kind: DocFilesetHead, Key: h.key, Expect: h.rev, Value: v})
	}
	return out
}

// filingTries bounds how often versions are numbered anew because others were faster.
const filingTries = 1000

// fileAlone commits what do files, and decides it anew when others were faster.
func (e *Engine) fileAlone(ctx context.Context, do func(f *filing) error) error {
	for range filingTries {
		now, err := e.now(ctx)
		if err != nil {
			return err
		}
		puts := &keeping{e: e}
		f := &filing{e: e, puts: puts, now: now}
		if err := do(f); err != nil {
			return err
		}
		docs, err := puts.writes(ctx, nil)
		if err != nil {
			return err
		}
		err = e.store.Commit(ctx, &haulier.Batch{Docs: append(docs, f.writes()...), Sync: true})
		if errors.Is(err, haulier.ErrConflict) {
			continue
		}
		if err == nil {
			e.releaseBlobs(ctx, f.freed)
		}
		return err
	}
	return fmt.Errorf("%w: others keep changing it; try again", haulier.ErrUnavailable)
}

// AddFileset implements haulier.Blobs.
func (e *Engine) AddFileset(ctx context.Context, r haulier.FilesetRequest) (haulier.Fileset, error) {
	var out haulier.Fileset
	err := first(
		func() error { return checkFilesetName("name", r.Name) },
		func() error { return checkAddress(r.Tenant, r.Manifest) },
		func() error {
			if r.Keep < 0 {
				return field("keep", "is below 0")
			}
			return nil
		},
		func() error {
			return e.fileAlone(ctx, func(f *filing) (err error) {
				out, err = f.add(ctx, &r, haulier.NilID)
				return err
			})
		},
	)
	return out, err
}

// file makes the output of an attempt a version of its fileset, in the commit of its end.
func (r *reporting) file(ctx context.Context, j *haulier.Job, manifest string) (int, error) {
	if j.Files == nil || j.Outputs == nil {
		return 0, field("output", "the job has none: name a fileset in outputs")
	}
	if err := checkAddress(j.Tenant, manifest); err != nil {
		return 0, err
	}
	if r.filed == nil {
		r.filed = &filing{e: r.e, puts: &r.puts, now: r.now}
	}
	o := j.Outputs
	fs, err := r.filed.add(ctx, &haulier.FilesetRequest{Tenant: j.Tenant, Name: o.Fileset, Manifest: manifest, Keep: o.Keep, By: r.session.snapshot().Worker}, j.ID)
	return fs.Version, err
}

// Fileset implements haulier.Blobs.
func (e *Engine) Fileset(ctx context.Context, tenant, name string, version int) (haulier.Fileset, error) {
	var out haulier.Fileset
	missing := fmt.Errorf("fileset %s: %w", haulier.FilesetRef(name, version), haulier.ErrNotFound)
	if version == 0 {
		h, _, err := e.filesetHead(ctx, tenant+"/"+name)
		if err != nil {
			return out, err
		}
		if version = h.Alive; version == 0 {
			return out, missing
		}
	}
	d, err := e.store.Doc(ctx, DocFileset, filesetKey(tenant, name, version))
	if errors.Is(err, haulier.ErrNotFound) {
		return out, missing
	}
	if err == nil {
		err = json.Unmarshal(d.Value, &out)
	}
	if err != nil {
		return out, fmt.Errorf("fileset %s: %w", haulier.FilesetRef(name, version), err)
	}
	return out, nil
}

// Filesets implements haulier.Blobs.
func (e *Engine) Filesets(ctx context.Context, tenant, name, after string, limit int) ([]haulier.Fileset, error) {
	if limit < 1 || limit > 1000 {
		return nil, field("limit", "must lie between 1 and 1000")
	}
	if name != "" {
		return e.filesetVersions(ctx, tenant, name, after, limit)
	}
	if after != "" {
		after = tenant + "/" + after
	}
	var out []haulier.Fileset
	for len(out) < limit {
		docs, err := e.store.Docs(ctx, DocFilesetHead, tenant+"/", after, limit)
		if err != nil {
			return nil, fmt.Errorf("filesets: %w", err)
		}
		for _, d := range docs {
			after = d.Key
			fs, err := e.Fileset(ctx, tenant, strings.TrimPrefix(d.Key, tenant+"/"), 0)
			if errors.Is(err, haulier.ErrNotFound) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if out = append(out, fs); len(out) == limit {
				return out, nil
			}
		}
		if len(docs) < limit {
			break
		}
	}
	return out, nil
}

func (e *Engine) filesetVersions(ctx context.Context, tenant, name, after string, limit int) ([]haulier.Fileset, error) {
	prefix := tenant + "/" + name + "/"
	if after != "" {
		_, version, err := haulier.ParseFilesetRef(after)
		if err != nil {
			return nil, err
		}
		after = filesetKey(tenant, name, version)
	}
	docs, err := e.store.Docs(ctx, DocFileset, prefix, after, limit)
	if err != nil {
		return nil, fmt.Errorf("fileset %s: %w", name, err)
	}
	out := make([]haulier.Fileset, len(docs))
	for i, d := range docs {
		if err := json.Unmarshal(d.Value, &out[i]); err != nil {
			return nil, fmt.Errorf("fileset %s: %w: %w", d.Key, haulier.ErrCorrupt, err)
		}
	}
	return out, nil
}

// DeleteFileset implements haulier.Blobs.
func (e *Engine) DeleteFileset(ctx context.Context, tenant, name string, version int) error {
	found := false
	err := e.fileAlone(ctx, func(f *filing) error {
		h, err := f.head(ctx, tenant, name)
		if err != nil {
			return err
		}
		found, h.Alive = false, 0
		for after := ""; ; {
			docs, err := e.store.Docs(ctx, DocFileset, tenant+"/"+name+"/", after, 200)
			if err != nil {
				return err
			}
			for _, d := range docs {
				after = d.Key
				var fs haulier.Fileset
				if err := json.Unmarshal(d.Value, &fs); err != nil {
					return fmt.Errorf("%w: %w", haulier.ErrCorrupt, err)
				}
				if version == 0 || fs.Version == version {
					found = true
					f.drop(&fs, d.Rev)
				} else {
					h.Alive = fs.Version
				}
			}
			if len(docs) < 200 {
				break
			}
		}
		if !found {
			return haulier.ErrNotFound
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("fileset %s: %w", haulier.FilesetRef(name, version), err)
	}
	return nil
}
