// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/go-logr/logr"

	"github.com/karve-dev/karve/controller/manager"
)

// openLog returns the logger for the configured level and outputs. Files are
// appended to and stay open as long as the process.
func openLog(c LogConfig) (logr.Logger, error) {
	var outputs []io.Writer
	for _, path := range c.LogOutputPaths {
		output, err := openOutput(path)
		if err != nil {
			return logr.Logger{}, fmt.Errorf("opening %s: %w", spelled("log-output-paths"), err)
		}
		outputs = append(outputs, output)
	}
	return manager.JSONLog(io.MultiWriter(outputs...), logLevel(c.LogLevel)), nil
}

func openOutput(path string) (io.Writer, error) {
	switch path {
	case "stdout":
		return os.Stdout, nil
	case "stderr":
		return os.Stderr, nil
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// logLevel translates a validated level.
func logLevel(name string) slog.Level {
	switch name {
	case "debug":
		return slog.LevelDebug
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}
