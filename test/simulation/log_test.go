// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"io"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

// testLog writes what karve logs between the lines of a story.
func testLog(w io.Writer) logr.Logger {
	return funcr.New(func(prefix, args string) { fmt.Fprintln(w, "    LOG", prefix, args) }, funcr.Options{Verbosity: 0})
}
