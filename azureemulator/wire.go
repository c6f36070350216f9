// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// request is one call to a route: what its handler needs of the HTTP request.
type request struct {
	http   *http.Request
	params map[string]string // the pattern's {segments}, in the client's spelling
	query  url.Values
	body   []byte
}

// reply is a handler's answer. body is encoded as JSON when the reply is written, without the
// lock: it must not share what the lock guards. raw is sent as it is.
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
