package agentengine

import "context"

// sweepHomes has an agent delete homes whose owners are gone: they were deleted while it was away.
func (e *Engine) sweepHomes(ctx context.Context, v *visit, owners []string) {
	if e.cfg.Homeless == nil || len(owners) == 0 {
		return
	}
	select {
	case <-v.whole:
	case <-ctx.Done():
		return
	}
	gone, err := e.cfg.Homeless(ctx, owners)
	if err != nil {
		if ctx.Err() == nil {
			e.cfg.Log.Warn("the homes on a machine could not be looked at; the next time its agent attaches they are", "error", err)
		}
		return
	}
	for _, id := range gone {
		v.order(kindErase, id, nil)
	}
}
