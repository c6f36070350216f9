// SPDX-License-Identifier: Apache-2.0

package network

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/karve-dev/karve/provider/azure/internal/armerr"
	"github.com/karve-dev/karve/provider/azure/internal/armlist"
)

// A grant is the actions that one role assignment allows karve's identity on a resource, less
// NotActions. In patterns * matches any characters.
type grant struct{ Actions, NotActions []string }

// permissionsVersion is the version of Microsoft.Authorization's API.
const permissionsVersion = "2022-04-01"

// maxGrantPages bounds the pages of grants; no identity has as many roles.
const maxGrantPages = 20

// grants reads from Azure what karve's identity may do to a resource. The usual roles that allow
// reading the resource allow reading this too.
func (n *Reader) grants(ctx context.Context, id string) ([]grant, error) {
	var out []grant
	next := runtime.JoinPaths(n.clients.ARM.Endpoint(), id, "providers/Microsoft.Authorization/permissions") + "?api-version=" + permissionsVersion
	for range maxGrantPages {
		page, err := armlist.ReadPage(ctx, n.clients.ARM, next)
		if err != nil {
			return nil, armerr.Wrap(err, "reading what may be done to %s", id)
		}
		for _, row := range page.Rows {
			var g grant
			if err := json.Unmarshal(row, &g); err != nil {
				return nil, fmt.Errorf("reading what may be done to %s: %w", id, err)
			}
			out = append(out, g)
		}
		if next = page.Next; next == "" {
			return out, nil
		}
	}
	return nil, fmt.Errorf("reading what may be done to %s: the list has no end", id)
}

// allowed reports whether any of the grants allows the action.
func allowed(grants []grant, action string) bool {
	for _, g := range grants {
		if anyMatches(g.Actions, action) && !anyMatches(g.NotActions, action) {
			return true
		}
	}
	return false
}

func anyMatches(patterns []string, action string) bool {
	for _, p := range patterns {
		if matches(strings.ToLower(p), strings.ToLower(action)) {
			return true
		}
	}
	return false
}

// matches matches text with a pattern in which * is any number of characters.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	if !strings.HasPrefix(text, parts[0]) {
		return false
	}
	text = text[len(parts[0]):]
	if len(parts) == 1 {
		return text == ""
	}
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return strings.HasSuffix(text, parts[len(parts)-1])
}
