// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"io"
	"log/slog"
	"strings"

	"github.com/go-logr/logr"
)

// JSONLog returns a logger that writes one JSON object per line, with the keys
// that log pipelines for Karpenter expect. level is debug, info or error.
func JSONLog(w io.Writer, level slog.Level) logr.Logger {
	handler := slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: rename})
	return logr.FromSlogHandler(withoutProbes{handler}).WithName("controller")
}

// withoutProbes drops the line that controller-runtime writes for every probe
// while karve is not ready: the response of the probe already reports it.
type withoutProbes struct{ slog.Handler }

func (h withoutProbes) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "healthz check failed" {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h withoutProbes) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withoutProbes{h.Handler.WithAttrs(attrs)}
}

func (h withoutProbes) WithGroup(name string) slog.Handler {
	return withoutProbes{h.Handler.WithGroup(name)}
}

func rename(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.MessageKey:
		a.Key = "message"
	case slog.LevelKey:
		a.Value = slog.StringValue(strings.ToLower(a.Value.String()))
	}
	return a
}
