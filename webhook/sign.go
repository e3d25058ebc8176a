// Package webhook is how Haulier calls addresses that others name: signed as Standard Webhooks asks for, bounded in time and size, and kept
// away from addresses of the network inside.
package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/haulier/haulier"
)

// The headers of a signed request, as Standard Webhooks names them.
const (
	HeaderID        = "webhook-id"        // of the message: the same when it is sent again
	HeaderTimestamp = "webhook-timestamp" // seconds since 1970, of this sending
	HeaderSignature = "webhook-signature" // "v1," and the base64 of an HMAC-SHA256; several are parted by spaces
)

const (
	prefix  = "whsec_"
	version = "v1,"
)

// Bounds of a key, in bytes.
const (
	minKey = 16
	maxKey = 256
)

// Tolerance is how far a timestamp may be from the receiver's clock.
const Tolerance = 5 * time.Minute

// NewSecret makes one of 32 random bytes, in the form whsec_ and base64.
func NewSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails
	return prefix + base64.StdEncoding.EncodeToString(b[:])
}

// Key is what a secret signs with: the bytes of whsec_ and base64, or else those of its text. ErrInvalid: too short, too long, or no base64.
func Key(secret string) ([]byte, error) {
	key := []byte(secret)
	if text, ok := strings.CutPrefix(secret, prefix); ok {
		var err error
		if key, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, fmt.Errorf("secret: %w: it begins with %s, and what follows is no base64", haulier.ErrInvalid, prefix)
		}
	}
	if len(key) < minKey || len(key) > maxKey {
		return nil, fmt.Errorf("secret: %w: it has %d bytes, and must have from %d to %d", haulier.ErrInvalid, len(key), minKey, maxKey)
	}
	return key, nil
}

// Sign is the headers of a message that is sent at a time.
func Sign(key []byte, id string, at time.Time, body []byte) map[string]string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	return map[string]string{HeaderID: id, HeaderTimestamp: stamp, HeaderSignature: version + base64.StdEncoding.EncodeToString(mac(key, id, stamp, body))}
}

func mac(key []byte, id, stamp string, body []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(id + "." + stamp + "."))
	h.Write(body)
	return h.Sum(nil)
}

// Verify checks what a receiver has got, against its secret and its clock. The id of the message, in HeaderID, tells it from one that was sent before.
func Verify(secret string, header http.Header, body []byte, now time.Time) error {
	key, err := Key(secret)
	if err != nil {
		return err
	}
	id, stamp := header.Get(HeaderID), header.Get(HeaderTimestamp)
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil || id == "" {
		return fmt.Errorf("webhook: %w: %s or %s is missing", haulier.ErrUnauthenticated, HeaderID, HeaderTimestamp)
	}
	if d := now.Sub(time.Unix(seconds, 0)); d > Tolerance || d < -Tolerance {
		return fmt.Errorf("webhook: %w: it was signed %v from now, more than %v", haulier.ErrUnauthenticated, d.Round(time.Second), Tolerance)
	}
	want := mac(key, id, stamp, body)
	for one := range strings.FieldsSeq(header.Get(HeaderSignature)) {
		text, ok := strings.CutPrefix(one, version)
		got, err := base64.StdEncoding.DecodeString(text)
		if ok && err == nil && hmac.Equal(got, want) {
			return nil
		}
	}
	return fmt.Errorf("webhook: %w: no signature fits", haulier.ErrUnauthenticated)
}
