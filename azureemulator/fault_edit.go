// SPDX-License-Identifier: Apache-2.0

package azureemulator

import (
	"net/http"
	"regexp"
	"strings"
	"time"
)

// What faults make of answers.

// anyID is an id of Resource Manager in a document.
var anyID = regexp.MustCompile(`"/subscriptions/[^"]*"`)

// inCapitals spells ids in capitals, which mean the same.
func inCapitals(w *answerWriter) {
	changed := anyID.ReplaceAllFunc(w.body.Bytes(), func(id []byte) []byte { return []byte(strings.ToUpper(string(id))) })
	w.body.Reset()
	w.body.Write(changed)
}

// byAnotherClock is a refusal for ten seconds, told as a moment by a clock that is three hours
// ahead.
func byAnotherClock(w *answerWriter) {
	ahead := time.Now().Add(3 * time.Hour).UTC()
	w.header.Set("Date", ahead.Format(http.TimeFormat))
	w.header.Set("Retry-After", ahead.Add(10*time.Second).Format(http.TimeFormat))
	w.header.Set("Content-Type", "application/json")
	w.status = http.StatusTooManyRequests
	w.body.Reset()
	w.body.WriteString(`{"error":{"code":"TooManyRequests","message":"The request was throttled."}}`)
}

// withMoreSizes lists every size once more, as a later version that nothing else knows yet.
func withMoreSizes(w *answerWriter) {
	edit(w, func(d map[string]any) {
		rows, _ := d["value"].([]any)
		for _, row := range rows {
			later := map[string]any{}
			for name, value := range object(row) {
				later[name] = value
			}
			for _, name := range []string{"name", "size", "family"} {
				later[name] = laterVersion(later[name])
			}
			rows = append(rows, later)
		}
		d["value"] = rows
	})
}

var version = regexp.MustCompile(`(?i)v[0-9]+`)

// laterVersion makes Standard_D4s_v99 of Standard_D4s_v5, and of its family's name.
func laterVersion(name any) any {
	text, _ := name.(string)
	return version.ReplaceAllString(text, "v99")
}

// everySecondMissing leaves out every second row of a page of prices.
func everySecondMissing(w *answerWriter) {
	edit(w, func(d map[string]any) {
		rows, _ := d["Items"].([]any)
		kept := []any{}
		for i, row := range rows {
			if i%2 == 0 {
				kept = append(kept, row)
			}
		}
		d["Items"], d["Count"] = kept, len(kept)
	})
}

// outdated has prices that were in force until yesterday.
func outdated(w *answerWriter) {
	yesterday := time.Now().Add(-24 * time.Hour).UTC().Format(time.RFC3339)
	editRows(w, func(_ int, row map[string]any) { row["effectiveEndDate"] = yesterday })
}
