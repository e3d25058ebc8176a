package server

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/haulier/haulier"
)

const octetType = "application/octet-stream"

func (s *Server) blobOperations() []operation {
	query := []param{tenantParam}
	version := append(query[:1:1], textParam("version", "a number; the newest unless said"))
	return []operation{
		{id: "putBlob", method: http.MethodPut, path: "/v1/blobs/{address}", tag: "files", need: keep, long: true, octets: true,
			summary: "Keep content under its SHA-256",
			doc:     "What nothing refers to is removed a day after it was last put or asked for.",
			query:   query, do: (*call).putBlob},
		{id: "getBlob", method: http.MethodGet, path: "/v1/blobs/{address}", tag: "files", need: read, long: true,
			summary: "Get content", doc: "The whole, or the part that the header Range names. HEAD tells whether it is there, and its size.",
			query: query, headers: []param{textParam("Range", "bytes=FROM- or bytes=FROM-TO")}, replyTypes: []string{octetType}, do: (*call).getBlob},
		{id: "missingBlobs", method: http.MethodPost, path: "/v1/blobs/missing", tag: "files", need: keep, summary: "Ask which blobs are not there",
			doc: "The others stay for a day at least.", query: query, body: missingBody{}, reply: missingReply{}, do: (*call).missingBlobs},
		{id: "addFileset", method: http.MethodPost, path: "/v1/filesets/{name}", tag: "files", need: keep, summary: "Make the next version of a fileset",
			doc:   "Its files and its manifest are blobs that were put before; docs/filesets.md has the format.",
			query: query, body: filesetBody{}, status: http.StatusCreated, reply: haulier.Fileset{}, do: (*call).addFileset},
		{id: "listFilesets", method: http.MethodGet, path: "/v1/filesets", tag: "files", need: read, summary: "List filesets, or the versions of one",
			query: append(query[:1:1], textParam("name", "list the versions of this one"), textParam("after", "go on after this name, or name@version"),
				textParam("limit", "at most this many; 100 unless said, at most 1000")), reply: filesetList{}, do: (*call).listFilesets},
		{id: "getFileset", method: http.MethodGet, path: "/v1/filesets/{name}", tag: "files", need: read, summary: "Show a version of a fileset",
			query: version, reply: haulier.Fileset{}, do: (*call).getFileset},
		{id: "deleteFileset", method: http.MethodDelete, path: "/v1/filesets/{name}", tag: "files", need: operate, summary: "Remove a version of a fileset, or all",
			query: append(query[:1:1], textParam("version", "a number; all unless said")), do: (*call).deleteFileset},
		{id: "jobFiles", method: http.MethodPost, path: "/v1/sessions/{id}/files", tag: "workers", need: work,
			summary: "Get what the working folder of a job gets, and what is to be kept of it", body: haulier.Ref{}, reply: haulier.JobFiles{}, do: (*call).jobFiles},
	}
}

type missingBody struct {
	Addresses []string `json:"addresses"`
}

type missingReply struct {
	Missing []string `json:"missing"`
}

type filesetBody struct {
	Manifest string `json:"manifest" doc:"address of the manifest"`
	Keep     int    `json:"keep,omitempty" doc:"versions that stay, the newest first; all unless said"`
}

type filesetList struct {
	Filesets []haulier.Fileset `json:"filesets"`
}

// patient gives a body that is long in coming time as long as it comes.
type patient struct {
	c *call
}

func (p patient) Read(b []byte) (int, error) {
	_ = http.NewResponseController(p.c.w).SetReadDeadline(time.Now().Add(bodyTimeout))
	n, err := p.c.r.Body.Read(b)
	if err != nil && err != io.EOF { //nolint:errorlint // a Reader returns io.EOF itself
		err = bodyFailed(err)
	}
	return n, err
}

func (c *call) putBlob() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	if err := c.Queue.PutBlob(c.ctx(), tenant, c.r.PathValue("address"), patient{c}); err != nil {
		return err
	}
	return c.replyNone()
}

func (c *call) getBlob() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	from, n, part, err := parseRange(c.r.Header.Get("Range"))
	if err != nil {
		return err
	}
	content, size, err := c.Queue.ReadBlob(c.ctx(), tenant, c.r.PathValue("address"), from, n)
	if err != nil {
		return err
	}
	defer content.Close()
	if n < 0 || n > size-from {
		n = size - from
	}
	h := c.w.Header()
	h.Set("Content-Type", octetType)
	h.Set("Accept-Ranges", "bytes")
	h.Set("Content-Length", strconv.FormatInt(n, 10))
	status := http.StatusOK
	if part {
		status = http.StatusPartialContent
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, from+n-1, size))
	}
	c.w.WriteHeader(status)
	if c.r.Method == http.MethodHead {
		return nil
	}
	soon(c.w)
	if err := c.pour(content); err != nil {
		c.Log.Warn("blob not sent whole", "blob", c.r.PathValue("address"), "err", err)
		panic(http.ErrAbortHandler) // nobody must take for the whole what is a part
	}
	return nil
}

// pour sends what is long in going.
func (c *call) pour(content io.Reader) error {
	piece := make([]byte, sendPiece)
	for {
		n, err := io.ReadFull(content, piece)
		last := err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !last {
			return err
		}
		soon(c.w)
		if _, err := c.w.Write(piece[:n]); err != nil || last {
			return err
		}
	}
}

// parseRange reads a header with one range that begins at a number; without one it is the whole.
func parseRange(header string) (from, n int64, part bool, err error) {
	if header == "" {
		return 0, -1, false, nil
	}
	spec, ok := strings.CutPrefix(header, "bytes=")
	first, last, two := strings.Cut(spec, "-")
	from, err = strconv.ParseInt(first, 10, 64)
	if !ok || !two || err != nil || from < 0 {
		return 0, 0, false, badRange(header)
	}
	if last == "" {
		return from, -1, true, nil
	}
	to, err := strconv.ParseInt(last, 10, 64)
	if err != nil || to < from {
		return 0, 0, false, badRange(header)
	}
	return from, to - from + 1, true, nil
}

func badRange(header string) error {
	return &haulier.FieldError{Field: "header.Range", Msg: strconv.Quote(clip(header)) + " is not of the form bytes=FROM- or bytes=FROM-TO"}
}

func (c *call) missingBlobs() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	var b missingBody
	if err := c.readJSON(&b); err != nil {
		return err
	}
	missing, err := c.Queue.MissingBlobs(c.ctx(), tenant, b.Addresses)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, missingReply{Missing: orNone(missing)})
}

func (c *call) addFileset() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	var b filesetBody
	if err := c.readJSON(&b); err != nil {
		return err
	}
	fs, err := c.Queue.AddFileset(c.ctx(), haulier.FilesetRequest{Tenant: tenant, Name: c.r.PathValue("name"), Manifest: b.Manifest, Keep: b.Keep, By: c.who.name})
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusCreated, fs)
}

func (c *call) listFilesets() error {
	tenant, err := c.ownTenant()
	if err != nil {
		return err
	}
	name, err := c.text("name")
	if err != nil {
		return err
	}
	after, err := c.text("after")
	if err != nil {
		return err
	}
	limit, err := c.number("limit", 1, 1000, 100)
	if err != nil {
		return err
	}
	list, err := c.Queue.Filesets(c.ctx(), tenant, name, after, int(limit))
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, filesetList{Filesets: orNone(list)})
}

// ofFileset is the tenant, and the version in the query: 0 when there is none.
func (c *call) ofFileset() (tenant string, version int, err error) {
	if tenant, err = c.ownTenant(); err != nil {
		return "", 0, err
	}
	n, err := c.number("version", 1, 1<<30, 0)
	return tenant, int(n), err
}

func (c *call) getFileset() error {
	tenant, version, err := c.ofFileset()
	if err != nil {
		return err
	}
	fs, err := c.Queue.Fileset(c.ctx(), tenant, c.r.PathValue("name"), version)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, fs)
}

func (c *call) deleteFileset() error {
	tenant, version, err := c.ofFileset()
	if err != nil {
		return err
	}
	if err := c.Queue.DeleteFileset(c.ctx(), tenant, c.r.PathValue("name"), version); err != nil {
		return err
	}
	return c.replyNone()
}

func (c *call) jobFiles() error {
	id, err := c.session()
	if err != nil {
		return err
	}
	var ref haulier.Ref
	if err := c.readJSON(&ref); err != nil {
		return err
	}
	files, err := c.Queue.JobFiles(c.ctx(), id, ref)
	if err != nil {
		return err
	}
	return c.replyJSON(http.StatusOK, files)
}
