//go:build !unix

package measure

import "time"

func cpu() time.Duration { return 0 }
