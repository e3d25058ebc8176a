package client_test

import (
	"errors"
	"testing"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/client"
)

// TestJournalIsAskedFor: a server without one says so.
func TestJournalIsAskedFor(t *testing.T) {
	addr := serve(t, newEngine(t), nil, "127.0.0.1:0").addr
	c, err := client.New(client.Config{URL: "http://" + addr, Journal: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var f *haulier.FieldError
	_, err = c.Enqueue(t.Context(), []haulier.EnqueueRequest{{Jobs: []haulier.Spec{{Type: "mail"}}}})
	if !errors.Is(err, haulier.ErrInvalid) || !errors.As(err, &f) || f.Field != "query.journal" {
		t.Errorf("%v", err)
	}
}
