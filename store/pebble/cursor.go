package pebble

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/haulier/haulier"
)

// A cursor says where a page ended: lane (4 bytes, 0 when the listing does not go by
// lanes) and the key of the last entry that was looked at; no key: before the lane's first.
type cursor struct {
	lane uint32
	key  []byte
}

// maxCursor bounds a cursor's key; the longest index key has 38 bytes.
const maxCursor = 64

func (c cursor) String() string {
	return base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint32(nil, c.lane), c.key...))
}

func parseCursor(text string) (cursor, error) {
	if len(text) <= 2*maxCursor {
		b, err := base64.RawURLEncoding.Strict().DecodeString(text)
		if err == nil && len(b) >= 4 && len(b) <= 4+maxCursor {
			return cursor{binary.BigEndian.Uint32(b), b[4:]}, nil
		}
	}
	return cursor{}, fmt.Errorf("%w: %.60q is no cursor; use the one that came with the page before", haulier.ErrInvalid, text)
}

// within cuts the range of keys to what follows the cursor; newest: downwards.
func (c cursor) within(low, high []byte, newest bool) (_, _ []byte, err error) {
	if len(c.key) == 0 {
		return low, high, nil
	}
	if bytes.Compare(c.key, low) < 0 || bytes.Compare(c.key, high) >= 0 {
		return nil, nil, fmt.Errorf("%w: the cursor belongs to another listing; begin again without one", haulier.ErrInvalid)
	}
	if newest {
		return low, c.key, nil
	}
	return append(bytes.Clone(c.key), 0), high, nil
}
