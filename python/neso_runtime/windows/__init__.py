"""What a connection with a server consists of on Windows: pipes and sections. Nothing imports it elsewhere."""
