// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package measure

import "time"

func cpu() time.Duration { return 0 }
