package flow

import "github.com/haulier/haulier"

// SignalOp is Signal.Op.
const SignalOp = "signal"

// Signal is the document of an event that was posted, until all that it starts was started.
type Signal struct {
	Op      string   `json:"op"`
	Tenant  string   `json:"tenant"`
	Event   string   `json:"event"`
	Payload []byte   `json:"payload,omitempty"`
	Cause   string   `json:"cause"`          // who posted it
	Done    []string `json:"done,omitempty"` // what it has started already
}

// Signal posts an event, in the transaction's commit. It returns the key of its document.
func (t *Tx) Signal(s Signal) string {
	s.Op = SignalOp
	key := haulier.NewID(t.now).String()
	t.put(haulier.DocWork, key, encode(s))
	t.signals = append(t.signals, key)
	return key
}
