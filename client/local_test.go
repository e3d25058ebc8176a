package client_test

import (
	"os"
	"testing"

	"github.com/haulier/haulier/client"
)

func TestLocalTokenIsForThisMachineAlone(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	getenv := func(string) string { return "" }
	if _, err := client.LeaveToken(client.DefaultURL, "secret", getenv); err == nil {
		t.Error("without a home it was left somewhere")
	}
	home := t.TempDir()
	getenv = func(name string) string { return map[string]string{"HOME": home}[name] }
	remove, err := client.LeaveToken(client.DefaultURL, "secret", getenv)
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"http://127.0.0.1:7480": "secret", "http://localhost:7480": "secret", "http://[::1]:7480": "secret",
		"http://127.0.0.1:7481": "", "http://queue.example:7480": "", "http://10.0.0.1:7480": "", "http://127.0.0.1.example:7480": "", ":": "",
	} {
		if got := client.LocalToken(url, getenv); got != want {
			t.Errorf("for %s it is %q, want %q", url, got, want)
		}
	}
	t.Run("a server takes back only what it left itself", func(t *testing.T) {
		if _, err := client.LeaveToken(client.DefaultURL, "of the next", getenv); err != nil {
			t.Fatal(err)
		}
		remove()
		if got := client.LocalToken(client.DefaultURL, getenv); got != "of the next" {
			t.Errorf("the next server's token is gone, there is %q", got)
		}
	})
}

func TestFromEnv(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("HAULIER_URL", "")
	t.Setenv("HAULIER_TOKEN", "")
	remove, err := client.LeaveToken(client.DefaultURL, "left", os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	defer remove()
	if c := client.FromEnv(); c.URL != client.DefaultURL || c.Token != "left" {
		t.Errorf("by default: %+v", c)
	}
	t.Setenv("HAULIER_TOKEN", "given")
	t.Setenv("HAULIER_URL", "http://queue.example")
	if c := client.FromEnv(); c.URL != "http://queue.example" || c.Token != "given" {
		t.Errorf("with variables: %+v", c)
	}
}
