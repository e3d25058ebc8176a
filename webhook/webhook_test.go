package webhook_test

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/haulier/haulier"
	"github.com/haulier/haulier/webhook"
)

// TestSignature holds the scheme to a signature that was computed with openssl.
func TestSignature(t *testing.T) {
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte("0123456789abcdef0123456789abcdef"))
	key, err := webhook.Key(secret)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1700000000, 0)
	got := webhook.Sign(key, "msg_1", at, []byte(`{"a":1}`))
	if got[webhook.HeaderTimestamp] != "1700000000" || got[webhook.HeaderSignature] != "v1,"+opensslSignature {
		t.Fatalf("signed %v", got)
	}
	header := http.Header{}
	for k, v := range got {
		header.Set(k, v)
	}
	if err := webhook.Verify(secret, header, []byte(`{"a":1}`), at.Add(time.Minute)); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"another body":   webhook.Verify(secret, header, []byte(`{"a":2}`), at),
		"another secret": webhook.Verify(webhook.NewSecret(), header, []byte(`{"a":1}`), at),
		"too old":        webhook.Verify(secret, header, []byte(`{"a":1}`), at.Add(6*time.Minute)),
		"from ahead":     webhook.Verify(secret, header, []byte(`{"a":1}`), at.Add(-6*time.Minute)),
		"no headers":     webhook.Verify(secret, http.Header{}, []byte(`{"a":1}`), at),
	} {
		if !errors.Is(err, haulier.ErrUnauthenticated) {
			t.Errorf("%s: %v", what, err)
		}
	}
	header.Set(webhook.HeaderSignature, "v1a,xyz v1,AAAA "+header.Get(webhook.HeaderSignature))
	if err := webhook.Verify(secret, header, []byte(`{"a":1}`), at); err != nil {
		t.Errorf("one of several: %v", err)
	}
	for _, bad := range []string{"", "short", "whsec_", "whsec_%%%", strings.Repeat("x", 300)} {
		if _, err := webhook.Key(bad); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

const opensslSignature = "rkwp5YuvdrMkcu0ZhuMsXoTg44mHAr1Q0+FFgFpXsjY="

func TestPrivateAddresses(t *testing.T) {
	for _, a := range []string{
		"127.0.0.1", "127.9.9.9", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.0.1",
		"198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1",
		"::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "fec0::1",
	} {
		if !webhook.Private(netip.MustParseAddr(a)) {
			t.Errorf("%s is let through", a)
		}
	}
	for _, a := range []string{"1.1.1.1", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8"} {
		if webhook.Private(netip.MustParseAddr(a)) {
			t.Errorf("%s is kept out", a)
		}
	}
}

func TestAddressesInsideAreNotCalled(t *testing.T) {
	called := false
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { called = true }))
	defer s.Close()
	c := webhook.New(webhook.Config{})
	defer c.Close()
	for _, u := range []string{s.URL, strings.Replace(s.URL, "127.0.0.1", "localhost", 1), "http://169.254.169.254/latest"} {
		if _, err := c.Do(t.Context(), &webhook.Request{URL: u}); !errors.Is(err, haulier.ErrForbidden) || strings.Contains(err.Error(), "latest") {
			t.Errorf("%s: %v", u, err)
		}
	}
	if called {
		t.Error("it was called")
	}
}

func TestCalls(t *testing.T) {
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	defer s.Close()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(r.Method + " " + r.Header.Get("X-Key") + " " + r.Header.Get(webhook.HeaderID)))
	}))
	defer other.Close()
	mux.HandleFunc("/long", func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 100)) })
	mux.HandleFunc("/busy", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	mux.HandleFunc("/see", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusSeeOther) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusPermanentRedirect)
	})
	mux.HandleFunc("/round", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/round", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	c := webhook.New(webhook.Config{AllowPrivate: true})
	defer c.Close()
	do := func(path string) *webhook.Answer {
		t.Helper()
		a, err := c.Do(t.Context(), &webhook.Request{URL: s.URL + path, Most: 50, Body: []byte("x"), Header: map[string]string{"X-Key": "k", webhook.HeaderID: "m"}})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	if a := do("/long"); len(a.Body) != 50 || !a.Cut {
		t.Errorf("long: %+v", a)
	}
	if a := do("/busy"); a.Status != 429 || a.Wait != 7*time.Second {
		t.Errorf("busy: %+v", a)
	}
	if a := do("/see"); a.Status != 303 {
		t.Errorf("a redirect that loses the body was followed: %+v", a)
	}
	if a := do("/moved"); string(a.Body) != "POST  m" {
		t.Errorf("another host got %q", a.Body)
	}
	if a := do("/round"); a.Status != 307 {
		t.Errorf("round: %+v", a)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Do(ctx, &webhook.Request{URL: s.URL + "/slow?key=hidden"}); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "hidden") {
		t.Errorf("slow: %v", err)
	}
}

func TestURLs(t *testing.T) {
	for _, bad := range []string{"", "x", "ftp://a/b", "http://", "https://u:p@a/", "http://a b/", "//a"} {
		if err := webhook.CheckURL(bad); !errors.Is(err, haulier.ErrInvalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := webhook.CheckURL("https://example.com/x?y=1"); err != nil {
		t.Error(err)
	}
}
