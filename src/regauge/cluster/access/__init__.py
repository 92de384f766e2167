"""Who calls the API server and what they may do: certificates, tokens, roles and bindings."""
