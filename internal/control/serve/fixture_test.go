package serve

import "github.com/fermi-cluster/fermi/internal/control/work"

func workConfig() work.Config { return work.Config{} }
