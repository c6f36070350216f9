package azureemulator

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// graphRequest is the body of a query.
type graphRequest struct {
	Subscriptions []string `json:"subscriptions"`
	Query         string   `json:"query"`
	Options       struct {
		ResultFormat string `json:"resultFormat"`
		Top          *int   `json:"$top"`
		SkipToken    string `json:"$skipToken"`
	} `json:"options"`
}

// graphPage is the most rows of an answer, and how many it has unless asked for fewer.
const graphPage = 1000

// queryGraph answers Resource Graph's queries, in the part of their language that clients who
// look for machines use: see readKQL.
func (s *Server) queryGraph(r *request) (reply, error) {
	var q graphRequest
	if err := r.decode(&q); err != nil {
		return reply{}, err
	}
	conditions, err := readKQL(q.Query)
	if err != nil {
		return reply{}, graphRefusal("InvalidQuery", "Query is invalid. Please refer to the documentation for the Azure Resource Graph service and fix the error before retrying.", "ParserFailure", err.Error())
	}
	top := graphPage
	if q.Options.Top != nil {
		top = *q.Options.Top
	}
	switch {
	case top < 1 || top > graphPage:
		return reply{}, graphRefusal("InvalidParameter", fmt.Sprintf("$top must be between 1 and %d.", graphPage))
	case q.Options.ResultFormat != "" && !strings.EqualFold(q.Options.ResultFormat, "objectArray"):
		return reply{}, graphRefusal("InvalidParameter", "This emulator answers in the resultFormat objectArray only.")
	case len(q.Subscriptions) > 0 && !slices.ContainsFunc(q.Subscriptions, func(id string) bool { return strings.EqualFold(id, s.options.SubscriptionID) }):
		return reply{}, graphRefusal("NoValidSubscriptionsInQueryRequest", "There must be at least one subscription that is eligible to contain resources.")
	}
	after, err := q.after()
	if err != nil {
		return reply{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	left, resets, refused := s.spend()
	header := http.Header{}
	header.Set("x-ms-user-quota-remaining", fmt.Sprint(left))
	header.Set("x-ms-user-quota-resets-after", clock(resets))
	if refused {
		return reply{}, graphThrottled(header, resets)
	}
	s.watch()
	rows, err := s.matching(conditions)
	if err != nil {
		return reply{}, err
	}
	return q.page(rows, after, top, header)
}

// clock is a duration as hh:mm:ss, rounded up.
func clock(d time.Duration) string {
	n := wholeSeconds(d)
	return fmt.Sprintf("%02d:%02d:%02d", n/3600, n/60%60, n%60)
}

// matching are the rows of the index that all conditions hold for, by id.
func (s *Server) matching(conditions []graphCondition) ([]map[string]any, error) {
	var rows []map[string]any
	for _, id := range slices.Sorted(maps.Keys(s.graph.rows)) {
		shown := s.graph.rows[id].shown
		if shown == nil {
			continue
		}
		row, err := graphView(shown)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", id, err)
		}
		if !slices.ContainsFunc(conditions, func(c graphCondition) bool { return !c.holds(row) }) {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// page cuts one page out of the rows. A token says after which id the next one begins, and
// is good for the same query only.
func (q graphRequest) page(rows []map[string]any, after string, top int, header http.Header) (reply, error) {
	total := len(rows)
	idOf := func(row map[string]any) string { id, _ := row["id"].(string); return strings.ToLower(id) }
	rows = slices.DeleteFunc(rows, func(row map[string]any) bool { return idOf(row) <= after })
	view := map[string]any{"totalRecords": total, "resultTruncated": "false", "facets": []any{}}
	if len(rows) > top {
		rows = rows[:top]
		view["$skipToken"] = base64.StdEncoding.EncodeToString([]byte(q.digest() + idOf(rows[top-1])))
	}
	view["count"], view["data"] = len(rows), append([]map[string]any{}, rows...) // [], not null
	return answer(http.StatusOK, header, view)
}

// digest tells queries apart.
func (q graphRequest) digest() string {
	raw, _ := json.Marshal([]any{q.Subscriptions, q.Query}) // strings always encode
	return fmt.Sprintf("%x", sha256.Sum256(raw))[:16]
}

// after is the id that the page before ended with; empty for the first.
func (q graphRequest) after() (string, error) {
	if q.Options.SkipToken == "" {
		return "", nil
	}
	raw, err := base64.StdEncoding.DecodeString(q.Options.SkipToken)
	id, same := strings.CutPrefix(string(raw), q.digest())
	if err != nil || !same {
		return "", graphRefusal("InvalidParameter", "The skip token is not one of this query's.")
	}
	return id, nil
}

// graphRefusal has what is wrong in its details, pairs of a code and a message, as the service
// does.
func graphRefusal(details ...string) *Error {
	e := badRequest("BadRequest", "Please provide below info when asking for support.")
	for pair := range slices.Chunk(details, 2) {
		e.Details = append(e.Details, ErrorDetail{Code: pair[0], Message: pair[1]})
	}
	return e
}

func graphThrottled(header http.Header, resets time.Duration) *Error {
	e := refuse(http.StatusTooManyRequests, "RateLimiting", "Client application has been throttled and should not attempt to repeat the request until an amount of time has elapsed.")
	setRetryAfter(header, resets)
	e.header = header
	return e
}
