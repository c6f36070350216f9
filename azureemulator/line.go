// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// A lineFault is a connection that fails. In process the request that is struck has the error
// that net/http would have. On the wire a connection knows no request before it stands, so
// the one that the request came by ends, and the next one fails as the fault says.
type lineFault string

const (
	tlsRefused         lineFault = "TLSHandshakeFailed"
	certificateExpired lineFault = "CertificateExpired"
	// nameUnknown is a connection that is closed at once on the wire: which name a client
	// looks up, and where, is not the server's to say.
	nameUnknown lineFault = "NameNotResolved"
	// goAway is a GOAWAY of HTTP/2 with requests under way. Of those that are struck every
	// other one was carried out before.
	goAway lineFault = "GoAway"
)

// onLine has connections fail. Requests that meet no server are not carried out.
func onLine(l lineFault) func(*fault) {
	return func(f *fault) { f.line, f.before, f.alternates = l, l != goAway, l == goAway }
}

// errGoAway is what net/http says of a connection that was ended under a request.
var errGoAway = errors.New("http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=\"\"")

// err is what a client has of it.
func (l lineFault) err(host string) error {
	switch l {
	case tlsRefused:
		return &net.OpError{Op: "remote error", Err: tls.AlertError(40)} // handshake_failure
	case certificateExpired:
		now := time.Now()
		detail := fmt.Sprintf("current time %s is after %s", now.Format(time.RFC3339), now.Add(-time.Hour).Format(time.RFC3339))
		return &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired, Detail: detail}}
	case nameUnknown:
		return &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}}
	}
	return errGoAway
}

// hangUp ends the connection of a request that is struck, which has no answer then.
func (fs *faults) hangUp(w http.ResponseWriter, r *http.Request, l lineFault) {
	if answer, inProcess := w.(*answerWriter); inProcess {
		answer.broken = l.err(r.URL.Host)
	} else if conn, listens := r.Context().Value(lineKey{}).(net.Conn); listens {
		fs.line.hangUp(w, r, conn, l)
	}
	panic(http.ErrAbortHandler)
}

// A line is how the listener's next connections fail. The zero line lets all stand.
type line struct {
	mu    sync.Mutex
	fails []lineFault
}

type lineKey struct{}

// remember puts the connection that a request came by into its context.
func (*line) remember(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, lineKey{}, conn)
}

// noticed is how long a client has to read a GOAWAY before its connection ends, whatever the
// time scale.
const noticed = 50 * time.Millisecond

func (l *line) hangUp(w http.ResponseWriter, r *http.Request, conn net.Conn, f lineFault) {
	if f == goAway {
		if r.ProtoMajor == 2 {
			w.Header().Set("Connection", "close") // which HTTP/2 has GOAWAY for
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush() // a client that went away reads nothing
			time.Sleep(noticed)
		}
	} else {
		l.mu.Lock()
		l.fails = append(l.fails, f)
		l.mu.Unlock()
	}
	_ = conn.Close() // it may have been closed by the client
}

// mend lets all connections stand from now on.
func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fails = nil
}

func (l *line) next() (f lineFault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.fails) > 0 {
		f, l.fails = l.fails[0], l.fails[1:]
	}
	return f
}
