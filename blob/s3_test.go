package blob_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/haulier/haulier/blob"
)

// TestObjectsInS3 works with a server that speaks S3 over a folder.
func TestObjectsInS3(t *testing.T) {
	if testing.Short() {
		t.Skip("not in short mode: it builds an S3 server")
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "haulier"), 0o700); err != nil {
		t.Fatal(err)
	}
	addr := startS3(t, dir)
	t.Setenv("AWS_ACCESS_KEY_ID", "tester")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	open := func(bucket string) (*blob.Store, error) {
		return blob.Open(t.Context(), "s3://"+bucket+"?region=us-east-1&use_path_style=true&endpoint=http://"+addr)
	}
	s, err := open("haulier")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	testObjects(t, s)
	if _, err := open("other"); err == nil {
		t.Error("a bucket that is not there was opened")
	}
}

// startS3 builds and starts the server of tools/s3 over the folder, whose folders are its buckets.
func startS3(t *testing.T, dir string) (addr string) {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "s3")
	build := exec.CommandContext(t.Context(), "go", "build", "-modfile=../tools/s3/go.mod", "-o", bin, "github.com/versity/versitygw/cmd/versitygw")
	if out, err := build.CombinedOutput(); err != nil {
		if os.Getenv("CI") == "" {
			t.Skipf("skipped: no S3 server can be built here (%v): %s", err, out)
		}
		t.Fatalf("build the S3 server: %v: %s", err, out)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = l.Addr().String()
	l.Close()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, bin, "--access", "tester", "--secret", "secret", "--port", addr, "posix", "--sidecar", t.TempDir(), dir)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		_ = cmd.Wait() // it was killed
	})
	for end := time.Now().Add(time.Minute); ; {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
			return addr
		}
		if time.Now().After(end) {
			t.Fatalf("the S3 server does not answer: %v", err)
		}
		<-time.After(20 * time.Millisecond)
	}
}
