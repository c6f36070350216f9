package azureemulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// request is one call to a route: what its handler needs of the HTTP request.
type request struct {
	http   *http.Request
	params map[string]string // the pattern's {segments}, in the client's spelling
	query  url.Values
	body   []byte
}

// reply is a handler's answer. body is encoded as JSON before the reply leaves
// the handler's lock, see reply.encode; raw is sent as it is.
type reply struct {
	status int
	header http.Header
	body   any
	raw    []byte
}

// bodyLimit is larger than any request Resource Manager accepts (4 MiB).
const bodyLimit = 4 << 20

// decode reads the request's JSON object into v.
func (r *request) decode(v any) error {
	if err := json.Unmarshal(r.body, v); err != nil {
		return invalidContent(err)
	}
	return nil
}

// ok is a 200 with a body encoded now, while the caller holds the lock that
// guards what it shows.
func ok(body any) (reply, error) { return answer(http.StatusOK, nil, body) }

func answer(status int, header http.Header, body any) (reply, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return reply{}, fmt.Errorf("encoding the reply: %w", err)
	}
	return reply{status: status, header: header, raw: raw}, nil
}

// asError finds or makes the Error that goes to the client.
func asError(err error) *Error {
	var refusal *Error
	if errors.As(err, &refusal) {
		return refusal
	}
	return refuse(http.StatusInternalServerError, "InternalServerError", "%v", err)
}

// readBody reads a whole request body within the limit.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyLimit))
	if err != nil {
		return nil, refuse(http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "The request body could not be read: %v", err)
	}
	return body, nil
}

// write sends a reply with the headers every Azure response carries.
func (s *Server) write(w http.ResponseWriter, r *http.Request, rep reply) {
	header := w.Header()
	maps.Copy(header, rep.header)
	s.stampHeaders(header, r)
	raw := rep.raw
	if raw == nil && rep.body != nil {
		encoded, err := json.Marshal(rep.body)
		if err != nil {
			s.log.Error("encoding a reply", slog.String("path", r.URL.Path), slog.Any("error", err))
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		raw = encoded
	}
	if raw != nil && header.Get("Content-Type") == "" {
		header.Set("Content-Type", "application/json; charset=utf-8")
	}
	w.WriteHeader(rep.status)
	// A client that has gone away loses its reply, as with any server.
	_, _ = w.Write(raw)
}

func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	refusal := asError(err)
	header := http.Header{}
	maps.Copy(header, refusal.header)
	header.Set("x-ms-error-code", refusal.Code)
	s.write(w, r, reply{status: refusal.Status, header: header, body: refusal.view()})
}

// stampHeaders adds the ids support staff ask for.
func (s *Server) stampHeaders(header http.Header, r *http.Request) {
	correlation := r.Header.Get("x-ms-correlation-request-id")
	if correlation == "" {
		correlation = s.chance.uuid()
	}
	header.Set("x-ms-request-id", s.chance.uuid())
	header.Set("x-ms-correlation-request-id", correlation)
	header.Set("x-ms-routing-request-id", fmt.Sprintf("%s:%s:%s", strings.ToUpper(s.options.Location), time.Now().UTC().Format("20060102T150405Z"), correlation))
	header.Set("Cache-Control", "no-cache")
	header.Set("Strict-Transport-Security", "max-age=31536000; includeSubDomains")
	if id := r.Header.Get("x-ms-client-request-id"); id != "" && strings.EqualFold(r.Header.Get("x-ms-return-client-request-id"), "true") {
		header.Set("x-ms-client-request-id", id)
	}
}
