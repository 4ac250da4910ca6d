package launch

import "log/slog"

var quiet = slog.New(slog.DiscardHandler)
