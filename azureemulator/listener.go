// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// listener serves the emulator over HTTPS, and leaves files by which other processes find it.
type listener struct {
	authority *authority
	files     files
	line      *line
	http      *http.Server
	serving   sync.WaitGroup
	log       *slog.Logger
}

// listen serves the handler. It sets the subscription's URL to the address before the first
// request comes.
func listen(ctx context.Context, o Options, sub *subscription, assertion string, handler http.Handler, l *line) (*listener, error) {
	socket, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", o.Addr, err)
	}
	ln := &listener{line: l, log: o.Log}
	host, port, err := net.SplitHostPort(socket.Addr().String())
	if err == nil {
		ln.authority, err = newAuthority(host)
	}
	if err == nil {
		sub.url = "https://" + net.JoinHostPort(reachable(host), port)
		ln.files, err = writeFiles(o.Dir, sub.url, ln.authority.pem, assertion)
	}
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	ln.http = &http.Server{
		Handler:           handler,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{ln.authority.server}, MinVersion: tls.VersionTLS12, GetConfigForClient: ln.greet},
		ConnContext:       l.remember,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(logWriter{o.Log}, "", 0),
	}
	ln.serving.Go(func() {
		if err := ln.http.ServeTLS(socket, "", ""); !errors.Is(err, http.ErrServerClosed) {
			ln.log.Error("emulator stopped listening", "error", err)
		}
	})
	return ln, nil
}

// close ends all connections. The files stay.
func (ln *listener) close() error {
	err := ln.http.Close()
	ln.serving.Wait()
	return err
}

// greet decides about a connection that begins; nil is the usual way.
func (ln *listener) greet(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	switch ln.line.next() {
	case tlsRefused:
		return nil, errors.New("refused on purpose")
	case nameUnknown:
		return nil, errors.Join(errors.New("closed on purpose"), hello.Conn.Close())
	case certificateExpired:
		return &tls.Config{Certificates: []tls.Certificate{ln.authority.expired}, MinVersion: tls.VersionTLS12}, nil
	}
	return nil, nil
}

// reachable names a host that clients can dial when the listener is bound to every interface.
func reachable(host string) string {
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return "127.0.0.1"
	}
	return host
}

// files is the folder other processes find the emulator by.
type files struct {
	dir string
	own bool // made by us, and so removed by us
}

const (
	caFile    = "ca.pem"
	tokenFile = "token"
	cloudFile = "azure.json"
)

// writeFiles writes to dir, or to a temporary folder when dir is empty.
func writeFiles(dir, url string, ca []byte, assertion string) (files, error) {
	f := files{dir: dir}
	if dir == "" {
		temporary, err := os.MkdirTemp("", "azure-emulator-")
		if err != nil {
			return f, fmt.Errorf("making a folder for the certificate and token: %w", err)
		}
		f = files{dir: temporary, own: true}
	}
	// The names that go-autorest and AKS nodes use for a cloud of one's own.
	environment, err := json.MarshalIndent(map[string]string{
		"name":                    "emulator",
		"resourceManagerEndpoint": url,
		"activeDirectoryEndpoint": url + "/",
		"tokenAudience":           "https://management.core.windows.net/",
	}, "", "  ")
	return f, errors.Join(err,
		os.MkdirAll(f.dir, 0o755),
		os.WriteFile(f.path(caFile), ca, 0o644),
		os.WriteFile(f.path(tokenFile), []byte(assertion), 0o600),
		os.WriteFile(f.path(cloudFile), environment, 0o644))
}

func (f files) path(name string) string { return filepath.Join(f.dir, name) }

func (f files) remove() error {
	if !f.own {
		return nil
	}
	return os.RemoveAll(f.dir)
}

// logWriter turns what net/http has to say into log lines.
type logWriter struct{ log *slog.Logger }

func (w logWriter) Write(p []byte) (int, error) {
	w.log.Debug("http server", "message", string(p))
	return len(p), nil
}
