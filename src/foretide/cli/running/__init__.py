"""`foretide run` and `foretide demo`: applications under a replayed load."""
