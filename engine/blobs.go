package engine

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/haulier/haulier"
)

// A blob is an object of the bucket, under a name that no other ever had, and a
// document that says where it is. The object is written before the document is
// committed, and removed after the document was: what has a document is there. Each
// commit that refers to a blob writes its document too, at the revision that it
// saw; so a removal, which expects the revision from before it looked for
// references, meets no new one. An object without a document is
// what a crash left, and is removed when it is old.
//
//	blob     TENANT/ADDRESS          blobDoc
//	blobref  TENANT/ADDRESS/HOLDER   a job's id, or =NAME@VERSION of a fileset by its manifest

// blobDoc is the document of a blob.
type blobDoc struct {
	Object string `json:"object"`
	Size   int64  `json:"size"`
	// Until an upload stays though nothing refers to it. Zero: it came with what refers to it.
	Until time.Time `json:"until,omitzero"`
	// Files: it is a manifest, and keeps what it lists.
	Files bool `json:"files,omitempty"`
}

const (
	uploadsStay = 24 * time.Hour
	renewUnder  = uploadsStay / 2 // what is asked for stays at least so long
	filesMargin = time.Hour       // that the files of a new manifest must stay at least, so that no removal is under way
	blobTries   = 20              // writes of a blob's document that others may be faster with
)

// tenantOf is the first part of a document's key.
func tenantOf(key string) string {
	tenant, _, _ := strings.Cut(key, "/")
	return tenant
}

func blobKey(tenant, addr string) string { return tenant + "/" + addr }

func objectName(tenant, addr string) string {
	var mark [6]byte
	rand.Read(mark[:])
	return tenant + "/" + addr[:2] + "/" + addr + "." + hex.EncodeToString(mark[:])
}

// blobDoc reads the document of a blob; rev 0: there is none.
func (e *Engine) blobDoc(ctx context.Context, key string) (doc blobDoc, rev uint64, err error) {
	d, err := e.store.Doc(ctx, haulier.DocBlob, key)
	if errors.Is(err, haulier.ErrNotFound) {
		return doc, 0, nil
	}
	if err != nil {
		return doc, 0, err
	}
	if err := json.Unmarshal(d.Value, &doc); err != nil {
		return doc, 0, fmt.Errorf("blob %s: %w: %w", key, haulier.ErrCorrupt, err)
	}
	return doc, d.Rev, nil
}

func (d *blobDoc) write(key string, rev uint64) (haulier.DocWrite, error) {
	v, err := json.Marshal(d)
	return haulier.DocWrite{Kind: haulier.DocBlob, Key: key, Expect: rev, Value: v}, err
}

// readBlob returns a whole blob.
func (e *Engine) readBlob(ctx context.Context, tenant, addr string) ([]byte, error) {
	doc, rev, err := e.blobDoc(ctx, blobKey(tenant, addr))
	if err != nil {
		return nil, err
	}
	if rev == 0 {
		return nil, noBlob(addr)
	}
	return e.blobs.ReadAll(ctx, doc.Object, addr)
}

func noBlob(addr string) error { return fmt.Errorf("blob %s: %w", addr, haulier.ErrNotFound) }

// keeping collects what a commit refers to among blobs.
type keeping struct {
	e     *Engine
	blobs map[string]*keptBlob // by key
	order []*keptBlob
	refs  []blobRef
}

type keptBlob struct {
	key, tenant, addr string
	content           []byte // nil: it is there
	object            string // that was written for it
	files             bool
}

// blobRef is a hold on a blob. One of a job that the commit adds is not made when the commit leaves that out.
type blobRef struct {
	key   string
	added haulier.ID
}

// content keeps bytes, and returns their address.
func (k *keeping) content(tenant string, content []byte, holder string, added haulier.ID) string {
	addr := haulier.BlobAddress(content)
	k.blob(tenant, addr, holder, added).content = content
	return addr
}

// manifest keeps a blob that is there, and what it lists.
func (k *keeping) manifest(tenant, addr, holder string) {
	k.blob(tenant, addr, holder, haulier.NilID).files = true
}

func (k *keeping) blob(tenant, addr, holder string, added haulier.ID) *keptBlob {
	key := blobKey(tenant, addr)
	k.refs = append(k.refs, blobRef{key: key + "/" + holder, added: added})
	if b := k.blobs[key]; b != nil {
		return b
	}
	if k.blobs == nil {
		k.blobs = map[string]*keptBlob{}
	}
	b := &keptBlob{key: key, tenant: tenant, addr: addr}
	k.blobs[key] = b
	k.order = append(k.order, b)
	return b
}

// named keeps a blob that the task of a new job names.
func (k *keeping) named(ctx context.Context, j *haulier.Job, addr string, now time.Time) error {
	if k.blobs[blobKey(j.Tenant, addr)] == nil {
		there, err := k.e.renewBlob(ctx, blobKey(j.Tenant, addr), now) // so that it is not removed before the commit
		if err != nil {
			return err
		}
		if !there {
			return field("task", fmt.Sprintf("names the blob %s, which is not there: put it first, as with `haulier blobs put`", addr))
		}
	}
	k.blob(j.Tenant, addr, j.ID.String(), j.ID)
	return nil
}

// mark and rewind drop what was kept since for a request that is refused.
func (k *keeping) mark() int { return len(k.refs) }

func (k *keeping) rewind(mark int) { k.refs = k.refs[:mark] }

// writes puts the blobs and returns the documents that the commit has to write. It is called again for another try.
func (k *keeping) writes(ctx context.Context, added []haulier.Job) ([]haulier.DocWrite, error) {
	if len(k.refs) == 0 {
		return nil, nil
	}
	ids := make(map[haulier.ID]bool, len(added))
	for i := range added {
		ids[added[i].ID] = true
	}
	var out []haulier.DocWrite
	used := map[string]bool{}
	for _, r := range k.refs {
		if r.added.IsNil() || ids[r.added] {
			if !used[r.key] {
				out = append(out, haulier.DocWrite{Kind: haulier.DocBlobRef, Key: r.key, Expect: haulier.AnyRev, Value: []byte{}})
			}
			used[r.key] = true
			used[r.key[:len(r.key)-len(holderOf(r.key))-1]] = true
		}
	}
	for _, b := range k.order {
		if !used[b.key] {
			continue
		}
		w, err := k.put(ctx, b)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, nil
}

// holderOf is the part of a reference's key that says who holds the blob.
func holderOf(key string) string { return key[strings.LastIndexByte(key, '/')+1:] }

// put writes the object, unless the blob is there, and returns the write of its document.
func (k *keeping) put(ctx context.Context, b *keptBlob) (w haulier.DocWrite, err error) {
	doc, rev, err := k.e.blobDoc(ctx, b.key)
	if err != nil {
		return w, err
	}
	if rev != 0 {
		doc.Files = doc.Files || b.files
		return doc.write(b.key, rev)
	}
	if b.content == nil {
		return w, noBlob(b.addr)
	}
	size := int64(len(b.content))
	if err := k.e.usage.admit(b.tenant, size); err != nil {
		return w, err
	}
	if b.object == "" {
		object := objectName(b.tenant, b.addr)
		if _, err := k.e.blobs.Write(ctx, object, b.addr, bytes.NewReader(b.content)); err != nil {
			return w, err
		}
		b.object = object
	}
	doc = blobDoc{Object: b.object, Size: size, Files: b.files}
	k.e.usage.add(b.tenant, size)
	return doc.write(b.key, 0)
}

// PutBlob implements haulier.Blobs.
func (e *Engine) PutBlob(ctx context.Context, tenant, addr string, content io.Reader) error {
	if err := checkAddress(tenant, addr); err != nil {
		return err
	}
	if missing, err := e.MissingBlobs(ctx, tenant, []string{addr}); err != nil || len(missing) == 0 {
		return err
	}
	room, err := e.usage.room(tenant)
	if err != nil {
		return err
	}
	object := objectName(tenant, addr)
	size, err := e.blobs.Write(ctx, object, addr, &bounded{r: content, left: room, over: e.usage.exhausted(tenant)})
	if err != nil {
		return err
	}
	now, err := e.now(ctx)
	if err != nil {
		return err
	}
	doc := blobDoc{Object: object, Size: size, Until: now.Add(uploadsStay)}
	w, err := doc.write(blobKey(tenant, addr), 0)
	if err == nil {
		err = e.store.Commit(ctx, &haulier.Batch{Docs: []haulier.DocWrite{w}, Sync: true})
	}
	if errors.Is(err, haulier.ErrConflict) { // somebody else put it meanwhile
		if err := e.blobs.Delete(ctx, object); err != nil {
			return err
		}
		_, err = e.MissingBlobs(ctx, tenant, []string{addr})
		return err
	}
	if err != nil {
		return fmt.Errorf("put blob %s: %w", addr, err)
	}
	e.usage.add(tenant, size)
	return nil
}

// bounded reads no more than there is room for.
type bounded struct {
	r    io.Reader
	left int64
	over error
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, b.over
	}
	return n, err
}

func checkAddress(tenant, addr string) error {
	if err := checkName("tenant", tenant); err != nil {
		return err
	}
	return haulier.CheckBlobAddress(addr)
}

// ReadBlob implements haulier.Blobs.
func (e *Engine) ReadBlob(ctx context.Context, tenant, addr string, from, n int64) (io.ReadCloser, int64, error) {
	if err := checkAddress(tenant, addr); err != nil {
		return nil, 0, err
	}
	doc, rev, err := e.blobDoc(ctx, blobKey(tenant, addr))
	if err != nil {
		return nil, 0, err
	}
	if rev == 0 {
		return nil, 0, noBlob(addr)
	}
	if from < 0 || from > doc.Size {
		return nil, doc.Size, fmt.Errorf("%w: blob %s has %d bytes: none from %d on", haulier.ErrInvalid, addr, doc.Size, from)
	}
	r, err := e.blobs.Read(ctx, doc.Object, addr, from, n)
	return r, doc.Size, err
}

// MissingBlobs implements haulier.Blobs.
func (e *Engine) MissingBlobs(ctx context.Context, tenant string, addrs []string) ([]string, error) {
	if len(addrs) > haulier.MaxAddresses {
		return nil, &haulier.FieldError{Field: "addresses", Kind: haulier.ErrTooLarge, Msg: fmt.Sprintf("are %d: ask for at most %d at once", len(addrs), haulier.MaxAddresses)}
	}
	for _, a := range addrs {
		if err := checkAddress(tenant, a); err != nil {
			return nil, err
		}
	}
	now, err := e.now(ctx)
	if err != nil {
		return nil, err
	}
	var missing []string
	seen := make(map[string]bool, len(addrs))
	for _, a := range addrs {
		if seen[a] {
			continue
		}
		seen[a] = true
		there, err := e.renewBlob(ctx, blobKey(tenant, a), now)
		if err != nil {
			return nil, fmt.Errorf("blob %s: %w", a, err)
		}
		if !there {
			missing = append(missing, a)
		}
	}
	return missing, nil
}

// renewBlob makes a blob stay for a while; false: it is not there.
func (e *Engine) renewBlob(ctx context.Context, key string, now time.Time) (bool, error) {
	for range blobTries {
		doc, rev, err := e.blobDoc(ctx, key)
		if err != nil || rev == 0 {
			return false, err
		}
		if doc.Until.Sub(now) > renewUnder {
			return true, nil
		}
		doc.Until = now.Add(uploadsStay)
		w, err := doc.write(key, rev)
		if err == nil {
			err = e.store.Commit(ctx, &haulier.Batch{Docs: []haulier.DocWrite{w}, Sync: true})
		}
		if !errors.Is(err, haulier.ErrConflict) {
			return err == nil, err
		}
	}
	return false, fmt.Errorf("%w: others keep changing it; try again", haulier.ErrUnavailable)
}

// releaseBlobs removes blobs, by their keys, that nothing refers to any more. Uploads, which filesets may list, are left to keepBlobs.
func (e *Engine) releaseBlobs(ctx context.Context, keys []string) {
	for _, key := range keys {
		doc, rev, err := e.blobDoc(ctx, key)
		if err == nil && rev != 0 && doc.Until.IsZero() {
			_, err = e.removeBlob(ctx, key, &doc, rev)
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			e.log.Warn("blob not removed", "blob", key, "err", err)
		}
	}
}

// removeBlob removes a blob that nothing refers to, unless somebody has used it since rev.
func (e *Engine) removeBlob(ctx context.Context, key string, doc *blobDoc, rev uint64) (removed bool, err error) {
	if held, err := e.held(ctx, key); err != nil || held {
		return false, err
	}
	err = e.store.Commit(ctx, &haulier.Batch{Docs: []haulier.DocWrite{{Kind: haulier.DocBlob, Key: key, Expect: rev}}, Sync: true})
	if errors.Is(err, haulier.ErrConflict) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	e.usage.add(tenantOf(key), -doc.Size)
	return true, e.blobs.Delete(ctx, doc.Object)
}

// usage is how many bytes of blobs the tenants keep: counted by keepBlobs, and near enough in between.
type usage struct {
	quota int64 // bytes a tenant; 0: no bound
	mu    sync.Mutex
	bytes map[string]int64
}

func (u *usage) add(tenant string, n int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.bytes == nil {
		u.bytes = map[string]int64{}
	}
	u.bytes[tenant] += n
}

func (u *usage) set(all map[string]int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes = all
}

// room is how much more a tenant may keep. ErrTooLarge: nothing.
func (u *usage) room(tenant string) (int64, error) {
	if u.quota <= 0 {
		return 1 << 62, nil
	}
	u.mu.Lock()
	left := u.quota - u.bytes[tenant]
	u.mu.Unlock()
	if left <= 0 {
		return 0, u.exhausted(tenant)
	}
	return left, nil
}

func (u *usage) admit(tenant string, n int64) error {
	if left, err := u.room(tenant); err != nil || n > left {
		return u.exhausted(tenant)
	}
	return nil
}

func (u *usage) exhausted(tenant string) error {
	return fmt.Errorf("%w: the blobs of tenant %s would be more than its quota of %d bytes: remove filesets or old jobs, or have the quota raised", haulier.ErrTooLarge, tenant, u.quota)
}
