package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/haulier/haulier"
)

// Bounds of a body.
const (
	maxBody        = 88 << 20 // bytes: a payload of haulier.MaxBlobPayload as base64, and room for the rest
	maxBatchBody   = 16 << 20 // bytes, of a body that is not a single large job
	maxPlainBody   = 4 << 20  // bytes, of operations that carry neither payloads nor output
	maxLargeBodies = 2        // bodies over maxBatchBody at a time
)

// readBody reads the whole body, of at most limit bytes. The bytes are the
// caller's to keep: what is parsed from them shares their memory.
func (c *call) readBody(limit int64) ([]byte, error) {
	n := c.r.ContentLength
	if n > limit {
		return nil, bodyTooLarge(limit)
	}
	if n > maxBatchBody {
		release, err := c.largePermit()
		if err != nil {
			return nil, err
		}
		defer release()
	}
	if n >= 0 {
		b, err := grow(c.r.Body, n)
		return b, bodyFailed(err)
	}
	// Only a moderate body is taken without a length, so that it needs no permit.
	limit = min(limit, maxBatchBody)
	b, err := io.ReadAll(io.LimitReader(c.r.Body, limit+1))
	if int64(len(b)) > limit {
		return nil, bodyTooLarge(limit)
	}
	return b, bodyFailed(err)
}

// firstRead is the memory that a body gets before any of it has come.
const firstRead = 1 << 20

// grow reads n bytes. Memory follows what has come, not what was announced.
func grow(r io.Reader, n int64) ([]byte, error) {
	b := make([]byte, 0, min(n, firstRead))
	for int64(len(b)) < n {
		if len(b) == cap(b) {
			b = append(make([]byte, 0, min(n, 4*int64(cap(b)))), b...)
		}
		k, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+k]
		switch {
		case err == nil || int64(len(b)) == n:
		case errors.Is(err, io.EOF):
			return b, io.ErrUnexpectedEOF
		default:
			return b, err
		}
	}
	return b, nil
}

// largePermit bounds the memory that large bodies take together.
func (c *call) largePermit() (func(), error) {
	select {
	case c.large <- struct{}{}:
		return func() { <-c.large }, nil
	case <-c.ctx().Done():
		return nil, c.ctx().Err()
	}
}

func bodyTooLarge(limit int64) error {
	return fmt.Errorf("body: %w: at most %d bytes are taken in one request here; send it in parts", haulier.ErrTooLarge, limit)
}

func bodyFailed(err error) error {
	var timeout net.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &timeout) && timeout.Timeout():
		return &refusal{status: http.StatusRequestTimeout, code: "timeout", detail: "the body did not come within a minute: send it faster, or in parts"}
	}
	return fmt.Errorf("body: %w: it ended early: %v", haulier.ErrInvalid, err)
}

// fieldErrors are wrong fields of one request.
type fieldErrors []FieldProblem

func (f fieldErrors) Error() string {
	var b strings.Builder
	for i, e := range f {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(e.Field + ": " + e.Message)
	}
	return b.String()
}

func (f fieldErrors) Unwrap() error { return haulier.ErrInvalid }

// readJSON reads the body into v. Fields that v does not have are refused.
func (c *call) readJSON(v any) error {
	b, err := c.readBody(maxPlainBody)
	if err != nil || len(b) == 0 && c.op.bodyOptional {
		return err
	}
	return decodeJSON(b, v)
}

// decodeJSON decodes the one JSON value in b. The quick way knows only that
// something is wrong; the fields are then found by walking through it again.
func decodeJSON(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(v)
	if err == nil {
		if rest := bytes.TrimSpace(b[d.InputOffset():]); len(rest) > 0 {
			return fmt.Errorf("body: %w: more follows after the JSON value at byte %d; send one value", haulier.ErrInvalid, d.InputOffset())
		}
		return nil
	}
	var syntax *json.SyntaxError
	switch {
	case len(bytes.TrimSpace(b)) == 0:
		return fmt.Errorf("body: %w: it is empty; send JSON", haulier.ErrInvalid)
	case errors.As(err, &syntax):
		return fmt.Errorf("body: %w: not JSON at byte %d: %v", haulier.ErrInvalid, syntax.Offset, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("body: %w: the JSON ends early", haulier.ErrInvalid)
	}
	if wrong := wrongFields(nil, "", b, reflect.TypeOf(v).Elem()); len(wrong) > 0 {
		return wrong
	}
	return fmt.Errorf("body: %w: %v", haulier.ErrInvalid, err)
}

// maxWrong bounds how many wrong fields an answer lists.
const maxWrong = 20

// wrongFields appends to list what in b does not fit the type, by path.
func wrongFields(list fieldErrors, path string, b []byte, t reflect.Type) fieldErrors {
	if len(list) >= maxWrong || string(b) == "null" {
		return list
	}
	value := reflect.New(t)
	err := strictly(b, value.Interface())
	if err == nil {
		return list
	}
	before := len(list)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	var object map[string]json.RawMessage
	var array []json.RawMessage
	switch {
	case t.Kind() == reflect.Struct && json.Unmarshal(b, &object) == nil:
		list = wrongMembers(list, path, object, t)
	case t.Kind() == reflect.Map && json.Unmarshal(b, &object) == nil:
		for _, k := range slices.Sorted(maps.Keys(object)) {
			list = wrongFields(list, join(path, clip(k)), object[k], t.Elem())
		}
	case t.Kind() == reflect.Slice && json.Unmarshal(b, &array) == nil:
		for i, item := range array {
			list = wrongFields(list, fmt.Sprintf("%s[%d]", path, i), item, t.Elem())
		}
	}
	if len(list) == before {
		list = append(list, FieldProblem{Field: orBody(path), Message: wrongValue(err, t)})
	}
	return list
}

func wrongMembers(list fieldErrors, path string, object map[string]json.RawMessage, t reflect.Type) fieldErrors {
	fields := fieldsOf(t)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		item := object[name]
		f, ok := fields[strings.ToLower(name)]
		if !ok {
			list = append(list, FieldProblem{Field: join(path, clip(name)), Message: "is not known here: see /docs for the fields there are"})
			continue
		}
		list = wrongFields(list, join(path, clip(name)), item, f)
	}
	return list
}

func strictly(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// wrongValue says what is expected instead.
func wrongValue(err error, t reflect.Type) string {
	if errors.Is(err, haulier.ErrInvalid) {
		return strings.TrimPrefix(err.Error(), haulier.ErrInvalid.Error()+": ")
	}
	switch {
	case t == reflect.TypeFor[haulier.Duration]():
		return `is no duration: write it as text, such as "1m30s"`
	case t == reflect.TypeFor[haulier.ID]():
		return "is no id: write it as text, such as 0199c3f0-7d3a-7000-8000-1b2c3d4e5f60"
	case t.String() == "time.Time":
		return "is no time: write it as text, such as 2026-01-31T09:30:00Z"
	case t.String() == "[]uint8":
		return "is not base64 in a text"
	}
	kind := map[reflect.Kind]string{reflect.String: "a text", reflect.Bool: "true or false", reflect.Map: "an object",
		reflect.Struct: "an object", reflect.Slice: "a list", reflect.Float64: "a number"}[t.Kind()]
	if kind == "" {
		kind = "a whole number"
	}
	return "must be " + kind
}

var fieldCache sync.Map // reflect.Type to map[string]reflect.Type

// fieldsOf returns the types of a struct's JSON fields by name in lower case.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	if m, ok := fieldCache.Load(t); ok {
		return m.(map[string]reflect.Type)
	}
	m := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || f.Anonymous || !f.IsExported() {
			continue
		}
		if name == "" {
			name = f.Name
		}
		m[strings.ToLower(name)] = f.Type
	}
	fieldCache.Store(t, m)
	return m
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func orBody(path string) string {
	if path == "" {
		return "body"
	}
	return path
}
