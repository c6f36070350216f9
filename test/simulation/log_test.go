// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
)

func testLog() logr.Logger {
	return funcr.New(func(prefix, args string) { fmt.Println("    LOG", prefix, args) }, funcr.Options{Verbosity: 0})
}
