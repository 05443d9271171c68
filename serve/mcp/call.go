package mcp

import (
	"context"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// call is a call of a tool. Its progress is reported if the client asked for that.
type call struct {
	base  Base
	token any // nil: nobody asked for progress

	notify func(*sdk.ProgressNotificationParams)
	mu     sync.Mutex
	count  float64
	last   time.Time
}

func newCall(ctx context.Context, b Base, r *sdk.CallToolRequest) *call {
	c := &call{base: b, token: r.Params.GetProgressToken()}
	c.notify = func(p *sdk.ProgressNotificationParams) { _ = r.Session.NotifyProgress(ctx, p) } // the client has left
	return c
}

// quiet is the time between two reports that say nothing new.
const quiet = 200 * time.Millisecond

// step reports that the call has come to a step.
func (c *call) step(message string) { c.report(message, 0, 0, true) }

// goes reports that a step goes on. Most of these reports are left out.
func (c *call) goes(message string) { c.report(message, 0, 0, false) }

// of reports how much of a whole is done.
func (c *call) of(done, total int64) { c.report("", float64(done), float64(total), done >= total) }

// report sends a notification. Without a total, progress is the number of notifications: it has to increase.
func (c *call) report(message string, done, total float64, always bool) {
	if c.token == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if total == 0 {
		done = c.count + 1
	}
	if done <= c.count || !always && time.Since(c.last) < quiet {
		return
	}
	c.count, c.last = done, time.Now()
	c.notify(&sdk.ProgressNotificationParams{ProgressToken: c.token, Message: message, Progress: done, Total: total})
}
