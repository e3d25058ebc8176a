package client

// Waiting is how many calls wait to be joined into the next enqueue request.
func Waiting(c *Client) int {
	c.enqueues.mu.Lock()
	defer c.enqueues.mu.Unlock()
	return len(c.enqueues.waiting)
}
