package manager

import (
	"io"
	"log/slog"
	"strings"

	"github.com/go-logr/logr"
)

// JSONLog returns a logger that writes one JSON object per line, with the keys
// that log pipelines for Karpenter expect. level is debug, info or error.
func JSONLog(w io.Writer, level slog.Level) logr.Logger {
	handler := slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: rename})
	return logr.FromSlogHandler(handler).WithName("controller")
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
